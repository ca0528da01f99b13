//! The controller of ForebayServices.
//!
//! ```text
//! reconcile   applies manifests, scales workers, writes the status     manifests        the desired objects (pure)
//! apply       applies one manifest                                     store            the informer cache
//! memory      scaling state and missing pods, between reconciles       wanted_workers   reads a dispatcher's metrics
//! status      computes the next status (pure)
//! ```
//!
//! Invariants: the service owns its objects, so the garbage collector deletes them with it. The operator changes no
//! object of another owner. It writes a status only when it changed, with the resourceVersion that was read. The
//! workers keep their replicas while the wanted number is unknown. A reconcile of a service in sync sends no request to
//! the API: it reads the store, and the dispatcher's metrics.

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
use crate::cluster::objects::{ApiClient, CLAIMS, DEPLOYMENTS, FOREBAY_SERVICES, Kind, PODS, POLICIES};
use crate::cluster::watches::{WatchEvent, watch};
use crate::cluster::work_queue::WorkQueue;
use crate::cluster::{Key, controller};
use manifests::{CONFIG_MAPS, ClusterInfo, ROLE, SERVICE, SERVICES, STATEFUL_SETS};
use memory::Memory;
use store::Store;

/// Services that are reconciled at the same time.
const CONCURRENCY: usize = 8;

/// The state that reconciles share.
pub(crate) struct Context {
    pub(crate) api: ApiClient,
    pub(crate) events: Events,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) cluster: ClusterInfo,
    queue: WorkQueue,
    clock: SystemClock,
}

/// Runs the controller and never returns.
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
    // The operator reads metrics of dispatcher pods only.
    [(FOREBAY_SERVICES, None), (PODS, Some(format!("{SERVICE},{ROLE}=dispatcher")))].into_iter().chain(manifests)
}

impl Context {
    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    /// Updates the store, and queues the service that a watch event affects.
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
