//! The controller of CacheBackends. Every watch event queues the key of a cache, and one reconcile decides all.
//!
//! ```text
//! reconcile     compares desired and observed state, and acts     status     computes the next status (pure)
//! declaration   reads the caches of workloads (pure)              uses       reads which object uses which cache (pure)
//! index         all uses, by cache                                inline     creates caches that workloads define
//! ungate        removes the gates of pods with a ready cache      finalize   deletes a cache without users
//! ```
//!
//! Invariants: a reconcile derives every decision from the cluster's state, so a crash loses nothing. The finalizer
//! keeps a cache while it has users. A status is written only when it changed, with the resourceVersion that was read.
//! The deletion of an idle cache has its uid and resourceVersion as preconditions.

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
    ApiClient, CACHE_BACKENDS, CLAIMS, DEPLOYMENTS, JOB_SETS, JOBS, KUBEFLOW_PYTORCH_JOBS, KUBEFLOW_TF_JOBS, Kind,
    PODS, PYTORCH_JOBS, RAY_CLUSTERS, RAY_JOBS, TF_JOBS, TRAIN_JOBS, VOLUMES, kind, text,
};
use crate::cluster::watches::{WatchEvent, watch};
use crate::cluster::work_queue::WorkQueue;
use crate::cluster::{Key, controller};
use crate::engines::node_figures::NodeFigures;
use crate::engines::{CACHE_UID, EngineSettings, cache_nodes};
use index::Index;

/// Caches that are reconciled at the same time.
const CONCURRENCY: usize = 8;
/// Kinds of workloads that may declare a cache.
pub(crate) const WORKLOADS: [Kind; 8] =
    [TF_JOBS, PYTORCH_JOBS, JOBS, KUBEFLOW_TF_JOBS, KUBEFLOW_PYTORCH_JOBS, TRAIN_JOBS, JOB_SETS, RAY_JOBS];
/// Kinds of owners between a workload and its pods that declare no cache themselves.
pub(crate) const INTERMEDIATES: [Kind; 1] = [RAY_CLUSTERS];
/// Kinds of children that have the cache's namespace and name.
const CHILDREN: [Kind; 5] = [
    CLAIMS,
    kind("data.fluid.io", "v1alpha1", "Dataset", "datasets"),
    kind("data.fluid.io", "v1alpha1", "AlluxioRuntime", "alluxioruntimes"),
    kind("data.fluid.io", "v1alpha1", "JuiceFSRuntime", "juicefsruntimes"),
    kind("data.fluid.io", "v1alpha1", "JindoRuntime", "jindoruntimes"),
];

/// The state that reconciles share.
pub(crate) struct Context {
    pub(crate) api: ApiClient,
    pub(crate) events: Events,
    pub(crate) index: Index,
    pub(crate) queue: WorkQueue,
    pub(crate) settings: EngineSettings,
    pub(crate) figures: NodeFigures,
}

/// Runs the controller and never returns.
pub(crate) async fn run(api: ApiClient, events: Events, settings: EngineSettings) {
    let (index, queue, figures) = (Index::default(), WorkQueue::default(), NodeFigures::default());
    let context = Arc::new(Context { api, events, index, queue, settings, figures });
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
    // A claim that is created again before its old volume is released has no event of its own at the release.
    let of_caches = || Some(CACHE_UID.to_owned());
    plain.chain([(PODS, Some(uses::CACHE.to_owned())), (VOLUMES, of_caches()), (DEPLOYMENTS, of_caches())])
}

/// Returns the key of the cache to which a child belongs. A volume has no namespace, so its claimRef gives the key.
fn cache_of(kind: Kind, object: &Value) -> Key {
    let at = if kind == VOLUMES { "/spec/claimRef" } else { "/metadata" };
    let name = text(object, &format!("{at}/name"));
    let name = if kind == DEPLOYMENTS { cache_nodes::cache_of(name) } else { name };
    Key::new(text(object, &format!("{at}/namespace")), name)
}

impl Context {
    /// Updates the index, and queues the caches that a watch event affects.
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
                if kind == DEPLOYMENTS {
                    // A pod of a cache node came or went: the last answers of the pods count no more.
                    self.figures.expire(&key);
                }
                // Most claims of a cluster belong to no cache.
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
