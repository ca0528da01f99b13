//! The controller of caches: one look at a time at each name, whatever of it changed.
//!
//! ```text
//! uses     who uses which cache: read of pods and jobs (pure)    index     all uses that are there, by cache
//! status   what is told of a cache (pure)                         look      one look: make, tell, let pods run, remove
//! inline   caches that jobs define themselves                     release   pods whose cache is ready
//! written  what workloads write of their cache (pure)
//! ```
//!
//! Invariants: everything is derived of what is there, so a crash loses nothing; no cache is removed while it is used;
//! a status is written only when it changed, in the version that was read; a deletion names uid and version.

pub(crate) mod declaration;
mod finalize;
mod index;
mod inline;
mod reconcile;
mod status;
mod ungate;
pub(crate) mod uses;

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::Value;

use crate::cluster::events::Events;
use crate::cluster::objects::{
    ApiClient, CACHE_BACKENDS, CLAIMS, JOB_SETS, JOBS, KUBEFLOW_PYTORCH_JOBS, KUBEFLOW_TF_JOBS, Kind, PODS,
    PYTORCH_JOBS, RAY_CLUSTERS, RAY_JOBS, TF_JOBS, TRAIN_JOBS, VOLUMES, kind, text,
};
use crate::cluster::watches::{WatchEvent, watch};
use crate::cluster::work_queue::WorkQueue;
use crate::cluster::{Key, controller};
use crate::engines::CACHE_UID;
use index::Index;

/// Caches that are looked at beside each other.
const CONCURRENCY: usize = 8;
/// What tells of users.
pub(crate) const WORKLOADS: [Kind; 8] =
    [TF_JOBS, PYTORCH_JOBS, JOBS, KUBEFLOW_TF_JOBS, KUBEFLOW_PYTORCH_JOBS, TRAIN_JOBS, JOB_SETS, RAY_JOBS];
/// What may stand between a job and its pods.
pub(crate) const INTERMEDIATES: [Kind; 1] = [RAY_CLUSTERS];
/// What caches consist of: objects that have the cache's namespace and name.
const CHILDREN: [Kind; 5] = [
    CLAIMS,
    kind("data.fluid.io", "v1alpha1", "Dataset", "datasets"),
    kind("data.fluid.io", "v1alpha1", "AlluxioRuntime", "alluxioruntimes"),
    kind("data.fluid.io", "v1alpha1", "JuiceFSRuntime", "juicefsruntimes"),
    kind("data.fluid.io", "v1alpha1", "JindoRuntime", "jindoruntimes"),
];

/// What a look needs.
pub(crate) struct Context {
    pub(crate) api: ApiClient,
    pub(crate) events: Events,
    pub(crate) index: Index,
    pub(crate) queue: WorkQueue,
}

/// Keeps caches as they should be, for ever.
pub(crate) async fn run(api: ApiClient, events: Events) {
    let context = Arc::new(Context { api, events, index: Index::default(), queue: WorkQueue::default() });
    let watches = FuturesUnordered::new();
    for (kind, labels) in watched() {
        let context = context.clone();
        let api = context.api.clone();
        watches.push(watch(api, kind, labels, move |kind, event| context.handle(kind, event)));
    }
    let reconciles = controller::run("cache", &context.queue, CONCURRENCY, async |key: &Key| {
        reconcile::reconcile(&context, key).await
    });
    tokio::select! {
        () = watches.for_each(|()| async {}) => {}
        () = reconciles => {}
    }
}

fn watched() -> impl Iterator<Item = (Kind, Option<String>)> {
    let plain = [CACHE_BACKENDS].into_iter().chain(CHILDREN).chain(WORKLOADS).map(|kind| (kind, None));
    // A claim that is made again before its old volume is released gets no event of its own when it is.
    plain.chain([(PODS, Some(uses::CACHE.to_owned())), (VOLUMES, Some(CACHE_UID.to_owned()))])
}

/// Returns the cache that an object belongs to by its name; a volume has no namespace, and names its claim.
fn cache_of(kind: Kind, object: &Value) -> Key {
    let at = if kind == VOLUMES { "/spec/claimRef" } else { "/metadata" };
    Key::new(text(object, &format!("{at}/namespace")), text(object, &format!("{at}/name")))
}

impl Context {
    /// Has the caches looked at that a change concerns.
    fn handle(&self, kind: Kind, event: WatchEvent) {
        let of = |object: &Value| cache_of(kind, object);
        let is_user = kind == PODS || WORKLOADS.contains(&kind);
        match event {
            WatchEvent::Applied(object) if is_user => self.enqueue(self.index.put(kind, &object)),
            WatchEvent::Deleted(object) if is_user => self.enqueue(self.index.remove(kind, &of(&object))),
            WatchEvent::ListStarted if is_user => self.index.start_list(kind),
            WatchEvent::ListFinished if is_user => self.enqueue(self.index.finish_list(kind)),
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => {
                let key = of(&object);
                if kind == CACHE_BACKENDS {
                    self.index.add_cache(key.clone());
                }
                // Claims of others have nothing to do with caches.
                if self.index.is_known(&key) {
                    self.queue.add(key);
                }
            }
            WatchEvent::ListStarted | WatchEvent::ListFinished => {}
        }
    }

    fn enqueue(&self, keys: Vec<Key>) {
        keys.into_iter().for_each(|key| self.queue.add(key));
    }
}
