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
mod look;
mod memory;
pub(crate) mod parts;
mod status;
mod store;
mod wants;

use std::sync::Arc;

use forebay_core::{Clock, SystemClock, Ticks};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::cluster::events::Events;
use crate::cluster::objects::{CLAIMS, FOREBAY_SERVICES, Kind, Objects, PODS};
use crate::cluster::queue::Queue;
use crate::cluster::watches::{Change, watch};
use crate::cluster::{Key, looks};
use memory::Memory;
use parts::{CONFIG_MAPS, DEPLOYMENTS, POLICIES, Place, ROLE, SERVICE, SERVICES, STATEFUL_SETS};
use store::Store;

/// Services that are looked at beside each other.
const AT_ONCE: usize = 8;

/// What a look needs.
pub(crate) struct Context {
    pub(crate) objects: Objects,
    pub(crate) events: Events,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) place: Place,
    queue: Queue,
    clock: SystemClock,
}

/// Keeps services as they should be, for ever.
pub(crate) async fn run(objects: Objects, events: Events, place: Place) {
    let context = Arc::new(Context {
        objects,
        events,
        store: Store::default(),
        memory: Memory::default(),
        place,
        queue: Queue::default(),
        clock: SystemClock::default(),
    });
    let watches = FuturesUnordered::new();
    for (kind, labels) in watched(context.place.budgets) {
        let context = context.clone();
        let objects = context.objects.clone();
        watches.push(watch(objects, kind, labels, move |kind, change| context.changed(kind, change)));
    }
    let work = looks::run("service", &context.queue, AT_ONCE, async |key: &Key| look::look(&context, key).await);
    tokio::select! {
        () = watches.for_each(|()| async {}) => {}
        () = work => {}
    }
}

fn watched(budgets: Kind) -> impl Iterator<Item = (Kind, Option<String>)> {
    let parts = [STATEFUL_SETS, DEPLOYMENTS, SERVICES, CONFIG_MAPS, POLICIES, CLAIMS, budgets];
    let parts = parts.into_iter().map(|kind| (kind, Some(SERVICE.to_owned())));
    // Of pods, only dispatchers are asked.
    [(FOREBAY_SERVICES, None), (PODS, Some(format!("{SERVICE},{ROLE}=dispatcher")))].into_iter().chain(parts)
}

impl Context {
    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    /// Has the service looked at that a change concerns.
    fn changed(&self, kind: Kind, change: Change) {
        match change {
            Change::There(object) => self.add(self.store.put(kind, object)),
            Change::Gone(object) => self.add(self.store.remove(kind, &object)),
            Change::ListBegins => self.store.list_begins(kind),
            Change::ListEnds => self.add(self.store.list_ends(kind)),
        }
    }

    fn add(&self, services: impl IntoIterator<Item = Key>) {
        services.into_iter().for_each(|key| self.queue.add(key));
    }
}
