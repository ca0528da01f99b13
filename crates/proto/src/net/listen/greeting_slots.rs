//! The slots of connections whose first request has not come yet. Pure except for [`GreetingSlot`].
//!
//! Holding such a connection costs its peer nothing, so their number is bounded. A new connection does not wait behind
//! a silent one: it evicts the oldest that has been silent for [`SILENT_MIN`]. The evicted connection has the same
//! address if that address has [`PEER_MAX`] slots, otherwise the address with the most slots.
//!
//! Bounds: [`ALL_MAX`] in all; [`PEER_MAX`] of one address, not counting the connections that came in the last [`SILENT_MIN`].

#![expect(clippy::disallowed_methods, reason = "greetings have to arrive in time")]

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

/// The most slots of one address.
const PEER_MAX: usize = 128;
/// The most slots.
const ALL_MAX: usize = 1024;
/// The least time for which a connection keeps its slot. Handshakes of many simultaneous connections take as long.
const SILENT_MIN: Duration = Duration::from_secs(1);

type Id = u64;

/// The decision on a new connection.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    /// It has a slot; the second connection is evicted.
    Admitted(Id, Option<Id>),
    /// No slot is free before this time, unless another connection sends its first request.
    WaitUntil(Instant),
}

/// The connections that have a slot, in the order of arrival.
#[derive(Debug, Default)]
struct Greetings {
    next: Id,
    open: BTreeMap<Id, (IpAddr, Instant)>,
}

impl Greetings {
    fn admit(&mut self, now: Instant, peer: IpAddr) -> Admission {
        let peer = network(peer);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.open.values().for_each(|(of, _)| *counts.entry(*of).or_default() += 1);
        let is_full = self.open.len() >= ALL_MAX;
        let crowd = match counts.get(&peer) {
            Some(count) if *count >= PEER_MAX => Some(peer),
            _ if is_full => counts.iter().max_by_key(|(of, count)| (**count, **of)).map(|(of, _)| *of),
            _ => None,
        };
        let oldest = crowd.and_then(|crowd| self.open.iter().find(|(_, (of, _))| *of == crowd));
        let evicted = oldest.filter(|(_, (_, since))| now.saturating_duration_since(*since) >= SILENT_MIN);
        let (evicted, oldest) = (evicted.map(|(id, _)| *id), oldest.map(|(_, (_, since))| *since));
        if is_full && evicted.is_none() {
            return Admission::WaitUntil(oldest.unwrap_or(now) + SILENT_MIN);
        }
        evicted.map(|id| self.open.remove(&id));
        self.next += 1;
        self.open.insert(self.next, (peer, now));
        Admission::Admitted(self.next, evicted)
    }

    fn remove(&mut self, id: Id) {
        self.open.remove(&id);
    }
}

/// Returns the address for counting: the /64 network for IPv6, because one machine has all of its addresses.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

#[derive(Debug, Default)]
struct State {
    greetings: Greetings,
    /// Tells a connection that it was evicted.
    evictions: HashMap<Id, oneshot::Sender<()>>,
}

/// The slots of one listener.
#[derive(Debug, Default)]
pub(super) struct GreetingSlots {
    state: Mutex<State>,
    freed: Notify,
}

/// The slot of a connection; dropped at its first request.
#[derive(Debug)]
pub struct GreetingSlot {
    slots: Arc<GreetingSlots>,
    id: Id,
    evicted: oneshot::Receiver<()>,
}

impl GreetingSlots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a slot for a connection of this peer. Waits at most [`SILENT_MIN`].
    pub(super) async fn acquire(self: &Arc<Self>, peer: IpAddr) -> GreetingSlot {
        loop {
            let freed = self.freed.notified();
            let until = {
                let mut state = self.state();
                match state.greetings.admit(Instant::now(), peer) {
                    Admission::Admitted(id, evicted) => {
                        evicted.map(|evicted| state.evictions.remove(&evicted));
                        let (end, evicted) = oneshot::channel();
                        state.evictions.insert(id, end);
                        return GreetingSlot { slots: self.clone(), id, evicted };
                    }
                    Admission::WaitUntil(until) => until,
                }
            };
            let _ = tokio::time::timeout_at(until.into(), freed).await;
        }
    }
}

impl GreetingSlot {
    /// Returns whether another connection has taken over the slot; wakes the task when that changes.
    pub(super) fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(cx).map(drop)
    }

    /// Waits until another connection has taken over the slot.
    pub async fn evicted(&mut self) {
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for GreetingSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.greetings.remove(self.id);
        state.evictions.remove(&self.id);
        drop(state);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn peer(i: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i))
    }

    fn admit(new: &mut Greetings, now: Instant, of: u32) -> (Id, Option<Id>) {
        match new.admit(now, peer(of)) {
            Admission::Admitted(id, evicted) => (id, evicted),
            Admission::WaitUntil(until) => panic!("it waits until {until:?}"),
        }
    }

    /// With any number of silent connections, a new one gets a slot at once; simultaneous ones do not evict each other.
    #[test]
    fn a_new_connection_has_a_slot_at_once_and_evicts_the_oldest_silent_one_of_the_busiest_address() {
        let (mut new, start) = (Greetings::default(), Instant::now());
        let first = admit(&mut new, start, 1).0;
        (1..500).for_each(|_| assert_eq!(admit(&mut new, start, 1).1, None, "they came at once"));
        let later = start + SILENT_MIN;
        assert_eq!(admit(&mut new, later, 1).1, Some(first));
        let quiet = admit(&mut new, later, 2).0;
        for i in new.open.len()..ALL_MAX {
            assert_eq!(admit(&mut new, later, 3 + i as u32).1, None);
        }
        let late = later + SILENT_MIN;
        for i in 0..400 {
            let (_, evicted) = admit(&mut new, late, 10_000 + i);
            assert!(
                evicted.is_some_and(|evicted| evicted != quiet && evicted <= 501),
                "the address with most gives way"
            );
        }
        assert_eq!(new.open.len(), ALL_MAX);
    }

    #[test]
    fn a_flood_waits_for_a_second_at_most_and_for_less_where_one_begins() {
        let (mut new, start) = (Greetings::default(), Instant::now());
        let all: Vec<Id> = (0..ALL_MAX as u32).map(|i| admit(&mut new, start, i % 7).0).collect();
        assert_eq!(new.admit(start, peer(9)), Admission::WaitUntil(start + SILENT_MIN));
        new.remove(all[3]);
        assert!(matches!(new.admit(start, peer(9)), Admission::Admitted(_, None)));
        assert_eq!(network("fd00::1".parse().expect("one")), network("fd00::2:1".parse().expect("one")));
        assert_eq!(network("::ffff:10.0.0.1".parse().expect("one")), peer(1));
    }
}
