//! Decides which sources may be indexed now. Pure: the time is an argument.
//!
//! A source that does not answer must delay only itself. The sources of one tenant at one host (or in one folder) are a
//! *lane*. A lane has a few places, and only an indexing that makes progress holds one: after [`STALLED_AFTER`] without
//! a finished file it continues without a place.
//!
//! Bounds: running indexings, with or without a place, in each lane ([`LANE_MAX`]), of each tenant ([`TENANT_MAX`]) and
//! in all ([`ALL_MAX`]); waiting ones ([`WAITING_MAX`]); and detached threads, which hang in a system call that cannot
//! be ended ([`DETACHED_TENANT_MAX`], [`DETACHED_ALL_MAX`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks};

/// Indexings of one lane that hold a place.
const PLACES: usize = 4;
/// How long an indexing keeps its place without finishing a file.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(1);
/// Indexings of one lane.
const LANE_MAX: usize = 8;
/// Indexings of one tenant.
const TENANT_MAX: usize = 16;
/// Indexings of all tenants.
const ALL_MAX: usize = 128;
/// Indexings of one tenant that wait.
const WAITING_MAX: usize = 1024;
/// Detached threads of one tenant.
const DETACHED_TENANT_MAX: usize = 16;
/// Detached threads of all tenants.
const DETACHED_ALL_MAX: usize = 128;
/// How long an indexing may take without finishing a file. A backstop: reads have bounds of their own, and a client
/// that leaves ends its indexing at once.
pub(super) const SILENT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A tenant, and the host of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) tenant: Arc<str>,
    pub(super) host: String,
}

/// The number of an indexing.
pub(super) type Id = u64;

#[derive(Debug)]
struct Running {
    lane: Lane,
    /// Whether its client knows that it may run, so that it has a thread.
    is_known: bool,
    /// Finished files, and since when their number has not changed.
    done: u64,
    heard: Ticks,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Places {
    next: Id,
    /// In the order of their arrival.
    waiting: BTreeMap<Id, Lane>,
    running: BTreeMap<Id, Running>,
    detached: BTreeMap<Id, Arc<str>>,
}

/// How many indexings there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexingFigures {
    /// Running indexings.
    pub running: usize,
    /// Indexings that wait for others.
    pub waiting: usize,
    /// Detached threads.
    pub detached: usize,
}

impl Places {
    /// Requests a place, which [`Places::begins`] assigns.
    ///
    /// # Errors
    /// Exhausted when too many wait, or too many threads are detached.
    pub(super) fn ask(&mut self, lane: Lane) -> Result<Id> {
        let tenant = &lane.tenant;
        let detached = self.detached.values().filter(|of| *of == tenant).count();
        let waiting = self.waiting.values().filter(|of| of.tenant == *tenant).count();
        if detached >= DETACHED_TENANT_MAX || self.detached.len() >= DETACHED_ALL_MAX {
            let message = format!("{} threads that index sources hang", self.detached.len());
            return Err(Error::new(ErrorKind::Exhausted, message)
                .hint("they wait for a file system that does not answer: mend that, or restart the dispatcher"));
        }
        if waiting >= WAITING_MAX {
            let message = format!("{waiting} jobs wait already for their sources to be indexed");
            return Err(Error::new(ErrorKind::Exhausted, message).hint("open fewer jobs at once"));
        }
        self.next += 1;
        self.waiting.insert(self.next, lane);
        Ok(self.next)
    }

    /// Assigns places to waiting indexings: first of the tenant, then of the lane with the fewest. Returns whether `id`
    /// may run.
    pub(super) fn begins(&mut self, now: Ticks, id: Id) -> bool {
        while let Some(next) = self.next_to_begin(now) {
            let Some(lane) = self.waiting.remove(&next) else { break };
            self.running.insert(next, Running { lane, is_known: false, done: 0, heard: now });
        }
        self.running.get_mut(&id).map(|running| running.is_known = true).is_some()
    }

    fn next_to_begin(&self, now: Ticks) -> Option<Id> {
        if self.running.len() >= ALL_MAX || self.waiting.is_empty() {
            return None;
        }
        let mut tenants = BTreeMap::<&str, usize>::new();
        let mut lanes = BTreeMap::<&Lane, (usize, usize)>::new();
        for running in self.running.values() {
            *tenants.entry(&running.lane.tenant).or_default() += 1;
            let (all, going) = lanes.entry(&running.lane).or_default();
            *all += 1;
            *going += usize::from(now - running.heard < STALLED_AFTER);
        }
        let of_tenant = |lane: &Lane| tenants.get(&*lane.tenant).copied().unwrap_or_default();
        let of_lane = |lane: &Lane| lanes.get(lane).copied().unwrap_or_default();
        let has_room = |lane: &Lane| {
            let (all, going) = of_lane(lane);
            of_tenant(lane) < TENANT_MAX && all < LANE_MAX && going < PLACES
        };
        let may = self.waiting.iter().filter(|(_, lane)| has_room(lane));
        may.min_by_key(|(id, lane)| (of_tenant(lane), of_lane(lane), **id)).map(|(id, _)| *id)
    }

    /// Notes how many files are done.
    pub(super) fn progress(&mut self, now: Ticks, id: Id, done: u64) {
        if let Some(running) = self.running.get_mut(&id).filter(|running| running.done != done) {
            (running.done, running.heard) = (done, now);
        }
    }

    /// Returns for how long an indexing has finished no file.
    pub(super) fn silence(&self, now: Ticks, id: Id) -> Duration {
        self.running.get(&id).map_or(Duration::ZERO, |running| now - running.heard)
    }

    /// The client of an indexing left. Its thread may still run.
    pub(super) fn abandon(&mut self, id: Id) {
        self.waiting.remove(&id);
        if let Some(running) = self.running.remove(&id).filter(|running| running.is_known) {
            self.detached.insert(id, running.lane.tenant);
        }
    }

    /// The thread of an indexing has returned.
    pub(super) fn returned(&mut self, id: Id) {
        self.running.remove(&id);
        self.detached.remove(&id);
    }

    pub(super) fn figures(&self) -> IndexingFigures {
        let Self { running, waiting, detached, .. } = self;
        IndexingFigures { running: running.len(), waiting: waiting.len(), detached: detached.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lane(tenant: u8, host: u8) -> Lane {
        Lane { tenant: format!("t{tenant}").into(), host: format!("h{host}") }
    }

    fn ask(places: &mut Places, lane: Lane) -> Id {
        places.ask(lane).expect("there is room to wait")
    }

    /// The main property: an indexing at a host of its own begins at once if its tenant has room, even if all others
    /// hang; without room it begins as soon as one of the tenant's indexings ends.
    #[test]
    fn a_dead_host_or_another_tenant_delays_no_other_work() {
        let mut places = Places::default();
        let dead: Vec<Id> = (0..100).map(|_| ask(&mut places, lane(0, 0))).collect();
        let others: Vec<Id> = (0..200).map(|i| ask(&mut places, lane(1, i))).collect();
        assert!(places.begins(Ticks(0), dead[0]) && places.begins(Ticks(0), others[0]));
        let own = ask(&mut places, lane(0, 1));
        assert!(places.begins(Ticks(0), own), "a dead host delays another host");
        let third = ask(&mut places, lane(2, 0));
        assert!(places.begins(Ticks(0), third), "a tenant delays another one");
        for now in 0..100 {
            places.begins(Ticks(now * 1000), 0);
        }
        let late = ask(&mut places, lane(0, 2));
        assert!(places.begins(Ticks(100_000), late), "however long that lasts");
        assert!(!places.begins(Ticks(100_000), dead[LANE_MAX]), "of a dead host, so many");
        assert_eq!(places.running.values().filter(|r| r.lane == lane(0, 0)).count(), LANE_MAX);
        assert_eq!(places.running.values().filter(|r| r.lane.tenant == lane(1, 0).tenant).count(), TENANT_MAX);
    }

    #[test]
    fn work_that_makes_progress_keeps_its_place_and_stalled_work_gives_it_up() {
        let mut places = Places::default();
        let ids: Vec<Id> = (0..PLACES + 1).map(|_| ask(&mut places, lane(0, 0))).collect();
        let last = ids[PLACES];
        let step = STALLED_AFTER.as_millis() as u64 / 2;
        for now in 1..10 {
            ids[..PLACES].iter().for_each(|id| places.progress(Ticks(now * step), *id, now));
            assert!(!places.begins(Ticks(now * step), last), "all places are in use");
        }
        ids[1..PLACES].iter().for_each(|id| places.progress(Ticks(10 * step), *id, 10));
        assert!(places.begins(Ticks(11 * step), last), "one has stalled");
        assert_eq!(places.silence(Ticks(11 * step), ids[0]), Duration::from_millis(2 * step));
    }

    #[test]
    fn threads_that_never_return_are_counted_and_stop_their_own_tenant_alone() {
        let mut places = Places::default();
        let lost: Vec<Id> = (0..DETACHED_TENANT_MAX as u64)
            .map(|i| {
                let id = ask(&mut places, lane(0, 0));
                assert!(places.begins(Ticks(i), id), "an abandoned one frees its place");
                places.abandon(id);
                id
            })
            .collect();
        assert_eq!(places.ask(lane(0, 1)).map_err(|e| e.kind()), Err(ErrorKind::Exhausted));
        let other = ask(&mut places, lane(1, 0));
        assert!(places.begins(Ticks(0), other));
        // An indexing that got a place through another's call, and whose client does not know, has no thread.
        let [unheard, begins] = [ask(&mut places, lane(2, 0)), ask(&mut places, lane(2, 0))];
        assert!(places.begins(Ticks(0), begins));
        places.abandon(unheard);
        assert_eq!(places.figures().detached, lost.len());
        places.returned(lost[3]);
        let next = ask(&mut places, lane(0, 0));
        assert!(places.begins(Ticks(0), next));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask(u8, u8),
        Wait(u16),
        Progress(usize),
        Abandon(usize),
        Return(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3u8, 0..3u8).prop_map(|(tenant, host)| Step::Ask(tenant, host)),
            2 => (0..3000u16).prop_map(Step::Wait),
            2 => any::<usize>().prop_map(Step::Progress),
            1 => any::<usize>().prop_map(Step::Abandon),
            2 => any::<usize>().prop_map(Step::Return),
        ]
    }

    proptest! {
        /// No bound is exceeded, and no indexing waits that may begin.
        #[test]
        fn bounds_hold_and_nothing_waits_without_a_cause(steps in prop::collection::vec(step(), 0..400)) {
            let (mut places, mut now, mut ids) = (Places::default(), Ticks(0), vec![0]);
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Ask(tenant, host) => ids.extend(places.ask(lane(tenant, host))),
                    Step::Wait(ms) => now = now + Duration::from_millis(ms.into()),
                    Step::Progress(n) => places.progress(now, ids[n % ids.len()], i as u64),
                    Step::Abandon(n) => places.abandon(ids[n % ids.len()]),
                    Step::Return(n) => {
                        let id = ids[n % ids.len()];
                        if !places.waiting.contains_key(&id) {
                            places.returned(id);
                        }
                    }
                }
                places.begins(now, 0);
                let count = |of: &dyn Fn(&Running) -> bool| places.running.values().filter(|r| of(r)).count();
                for lane in places.running.values().map(|r| &r.lane).chain(places.waiting.values()) {
                    let (in_lane, of_tenant) = (count(&|r| r.lane == *lane), count(&|r| r.lane.tenant == lane.tenant));
                    prop_assert!(in_lane <= LANE_MAX && of_tenant <= TENANT_MAX);
                    let going = count(&|r| r.lane == *lane && now - r.heard < STALLED_AFTER);
                    if places.waiting.values().any(|waiting| waiting == lane) {
                        prop_assert!(going >= PLACES || in_lane == LANE_MAX || of_tenant == TENANT_MAX);
                    }
                }
                prop_assert!(places.running.len() <= ALL_MAX);
            }
        }
    }
}
