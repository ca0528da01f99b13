//! Connections that have not begun: how many there may be, and which one goes for another. Pure but for [`Place`].
//!
//! A connection is new until its first request came: until then it costs its peer nothing to hold it. Nobody waits behind such
//! a connection: one that has been silent for [`SILENT_MIN`] goes for one that comes, of the same address where that has
//! [`PEER_MAX`], and otherwise of the address that has most. Bounds: [`ALL_MAX`], and of one address [`PEER_MAX`] beside those that
//! came in the last [`SILENT_MIN`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

/// New connections of one address.
const PEER_MAX: usize = 128;
/// New connections of all.
const ALL_MAX: usize = 1024;
/// How long a connection may say nothing before another takes its place. Handshakes of many that come at once take as long.
const SILENT_MIN: Duration = Duration::from_secs(1);

type Id = u64;

/// What becomes of a connection that comes.
#[derive(Debug, PartialEq, Eq)]
enum Comes {
    /// It has a place. One that was there goes.
    In(Id, Option<Id>),
    /// There is no place before this time, or until one has begun.
    At(Instant),
}

/// In the order in which they came.
#[derive(Debug, Default)]
struct Newcomers {
    next: Id,
    open: BTreeMap<Id, (IpAddr, Instant)>,
}

impl Newcomers {
    fn come(&mut self, now: Instant, peer: IpAddr) -> Comes {
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
        let goes = oldest.filter(|(_, (_, since))| now.saturating_duration_since(*since) >= SILENT_MIN);
        let (goes, oldest) = (goes.map(|(id, _)| *id), oldest.map(|(_, (_, since))| *since));
        if is_full && goes.is_none() {
            return Comes::At(oldest.unwrap_or(now) + SILENT_MIN);
        }
        goes.map(|id| self.open.remove(&id));
        self.next += 1;
        self.open.insert(self.next, (peer, now));
        Comes::In(self.next, goes)
    }

    fn leave(&mut self, id: Id) {
        self.open.remove(&id);
    }
}

/// A machine has all the addresses of an IPv6 network.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

#[derive(Debug, Default)]
struct State {
    newcomers: Newcomers,
    /// Those whose place may be taken.
    ends: HashMap<Id, oneshot::Sender<()>>,
}

/// The places of one listener.
#[derive(Debug, Default)]
pub(super) struct Places {
    state: Mutex<State>,
    freed: Notify,
}

/// The place of a connection that has not begun; dropped once it has.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    id: Id,
    taken: oneshot::Receiver<()>,
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection of this peer. Takes at most [`SILENT_MIN`].
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> Place {
        loop {
            let freed = self.freed.notified();
            let until = {
                let mut state = self.state();
                match state.newcomers.come(Instant::now(), peer) {
                    Comes::In(id, goes) => {
                        goes.map(|goes| state.ends.remove(&goes));
                        let (end, taken) = oneshot::channel();
                        state.ends.insert(id, end);
                        return Place { places: self.clone(), id, taken };
                    }
                    Comes::At(until) => until,
                }
            };
            let _ = tokio::time::timeout_at(until.into(), freed).await;
        }
    }
}

impl Place {
    /// Says whether another connection has taken the place; asks again when that changes.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.taken).poll(cx).map(drop)
    }

    /// Runs until another connection has taken the place.
    pub async fn taken(&mut self) {
        let _ = (&mut self.taken).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state();
        state.newcomers.leave(self.id);
        state.ends.remove(&self.id);
        drop(state);
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn peer(i: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i))
    }

    fn come(new: &mut Newcomers, now: Instant, of: u32) -> (Id, Option<Id>) {
        match new.come(now, peer(of)) {
            Comes::In(id, goes) => (id, goes),
            Comes::At(until) => panic!("it waits until {until:?}"),
        }
    }

    /// However many are silent, one that comes has a place at once, and of many that come at the same time none goes.
    #[test]
    fn whoever_comes_has_a_place_at_once_and_the_oldest_silent_one_of_the_crowd_goes() {
        let (mut new, start) = (Newcomers::default(), Instant::now());
        let first = come(&mut new, start, 1).0;
        (1..500).for_each(|_| assert_eq!(come(&mut new, start, 1).1, None, "they came at once"));
        let later = start + SILENT_MIN;
        assert_eq!(come(&mut new, later, 1).1, Some(first));
        let quiet = come(&mut new, later, 2).0;
        for i in new.open.len()..ALL_MAX {
            assert_eq!(come(&mut new, later, 3 + i as u32).1, None);
        }
        let late = later + SILENT_MIN;
        for i in 0..400 {
            let (_, goes) = come(&mut new, late, 10_000 + i);
            assert!(goes.is_some_and(|goes| goes != quiet && goes <= 501), "the address with most gives way");
        }
        assert_eq!(new.open.len(), ALL_MAX);
    }

    #[test]
    fn a_flood_waits_for_a_second_at_most_and_for_less_where_one_begins() {
        let (mut new, start) = (Newcomers::default(), Instant::now());
        let all: Vec<Id> = (0..ALL_MAX as u32).map(|i| come(&mut new, start, i % 7).0).collect();
        assert_eq!(new.come(start, peer(9)), Comes::At(start + SILENT_MIN));
        new.leave(all[3]);
        assert!(matches!(new.come(start, peer(9)), Comes::In(_, None)));
        assert_eq!(network("fd00::1".parse().expect("one")), network("fd00::2:1".parse().expect("one")));
        assert_eq!(network("::ffff:10.0.0.1".parse().expect("one")), peer(1));
    }
}
