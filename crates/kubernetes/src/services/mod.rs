//! The controller of services: `ForebayService` objects, and what they consist of.
//!
//! ```text
//! parts     the objects of a service, described (pure)     apply    makes one, or puts it right
//! store     objects that watches reported                  memory   reconcilers, and since when pods are missing
//! wants     how many workers the dispatcher wants          status   the next status of a service (pure)
//! look      one look: make, scale, tell
//! ```
//!
//! Invariants: the service owns its parts, so they are deleted with it; the operator changes no object of another
//! owner; it writes a status only when it changed, in the version that was read; workers stay as they are while the
//! wanted number is unknown. A service that needs no change costs no request to the API: looks read the store, and ask
//! only the dispatcher.

mod apply;
pub(crate) mod manifests;
mod memory;
mod reconcile;
mod status;
mod store;
mod wanted_workers;

use std::sync::Arc;

use forebay_core::{Clock, SystemClock, Ticks};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::cluster::events::Events;
use crate::cluster::objects::{ApiClient, CLAIMS, FOREBAY_SERVICES, Kind, PODS};
use crate::cluster::watches::{WatchEvent, watch};
use crate::cluster::work_queue::WorkQueue;
use crate::cluster::{Key, controller};
use manifests::{CONFIG_MAPS, ClusterInfo, DEPLOYMENTS, POLICIES, ROLE, SERVICE, SERVICES, STATEFUL_SETS};
use memory::Memory;
use store::Store;

/// Services that are looked at beside each other.
const CONCURRENCY: usize = 8;

/// What a look needs.
pub(crate) struct Context {
    pub(crate) api: ApiClient,
    pub(crate) events: Events,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) cluster: ClusterInfo,
    queue: WorkQueue,
    clock: SystemClock,
}

/// Keeps services as they should be, for ever.
pub(crate) async fn run(api: ApiClient, events: Events, cluster: ClusterInfo) {
    let context = Arc::new(Context {
        api,
        events,
        store: Store::default(),
        memory: Memory::default(),
        cluster,
        queue: WorkQueue::default(),
        clock: SystemClock::default(),
    });
    let watches = FuturesUnordered::new();
    for (kind, labels) in watched(context.cluster.budgets) {
        let context = context.clone();
        let api = context.api.clone();
        watches.push(watch(api, kind, labels, move |kind, event| context.handle(kind, event)));
    }
    let reconciles = controller::run("service", &context.queue, CONCURRENCY, async |key: &Key| {
        reconcile::reconcile(&context, key).await
    });
    tokio::select! {
        () = watches.for_each(|()| async {}) => {}
        () = reconciles => {}
    }
}

fn watched(budgets: Kind) -> impl Iterator<Item = (Kind, Option<String>)> {
    let manifests = [STATEFUL_SETS, DEPLOYMENTS, SERVICES, CONFIG_MAPS, POLICIES, CLAIMS, budgets];
    let manifests = manifests.into_iter().map(|kind| (kind, Some(SERVICE.to_owned())));
    // Of pods, only dispatchers are asked.
    [(FOREBAY_SERVICES, None), (PODS, Some(format!("{SERVICE},{ROLE}=dispatcher")))].into_iter().chain(manifests)
}

impl Context {
    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    /// Has the service looked at that a change concerns.
    fn handle(&self, kind: Kind, event: WatchEvent) {
        match event {
            WatchEvent::Applied(object) => self.enqueue(self.store.put(kind, object)),
            WatchEvent::Deleted(object) => self.enqueue(self.store.remove(kind, &object)),
            WatchEvent::ListStarted => self.store.start_list(kind),
            WatchEvent::ListFinished => self.enqueue(self.store.finish_list(kind)),
        }
    }

    fn enqueue(&self, services: impl IntoIterator<Item = Key>) {
        services.into_iter().for_each(|key| self.queue.add(key));
    }
}
