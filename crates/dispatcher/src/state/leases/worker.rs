//! One worker: its session, the room it said it has, and the leases it holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Ticks;
use forebay_proto::JobKey;

use crate::records::{ConsumerKey, SplitKey};
use crate::state::SessionId;
use crate::state::fleet::worker_types::WorkerType;

/// The most splits that a worker may ask for.
const CREDIT_MAX: u32 = 1 << 16;
/// What one lease counts in [`Worker::load`].
pub(in crate::state) const LOAD_OF_ONE: usize = 2;
/// More than the leases of any worker count.
const SLOW_LOAD: usize = 1 << 32;

#[derive(Debug, Clone)]
pub(in crate::state) struct Worker {
    pub(in crate::state) address: Arc<str>,
    pub(in crate::state) threads: u32,
    pub(in crate::state) session: Option<SessionId>,
    /// When it last said anything; without a session, when that was lost.
    pub(in crate::state) heard: Ticks,
    /// When a heartbeat of it was last answered, or it was welcomed.
    pub(in crate::state) answered: Ticks,
    /// Without a session: when its leases go to others.
    pub(in crate::state) until: Ticks,
    /// Splits that it has asked for and not been given.
    credit: u32,
    pub(in crate::state) leaving: bool,
    /// By token.
    pub(in crate::state) leases: BTreeMap<u64, SplitKey>,
    /// When it began with the splits that it is at, by token: see [`Worker::note_begun`].
    pub(in crate::state) begun: BTreeMap<u64, Ticks>,
    /// Since when those that it had begun with give way to others, by token: its threads first finish the parts that they are at.
    gave_way: BTreeMap<u64, Ticks>,
    /// Jobs whose definition this session has been sent.
    pub(in crate::state) jobs: BTreeSet<u64>,
    pub(in crate::state) splits_done: u64,
    pub(in crate::state) rows_done: u64,
    pub(in crate::state) rows_shared: u64,
    /// Tokens of leases that it has said it does not work on any more.
    pub(in crate::state) finished: BTreeSet<u64>,
    /// Jobs that it has said bring nothing there: see `held_up`. It says so again after its connection broke.
    pub(in crate::state) held_up: BTreeSet<u64>,
    /// Splits that it was at when their reader could not fetch them, and when: it may have died of one.
    failed: Vec<(SplitKey, Ticks)>,
    /// The tenant that it computes for; `None` is for everybody.
    pub(in crate::state) serves: Option<Arc<str>>,
    /// Of a local worker: the only reader that it computes for, on whose machine it is.
    pub(in crate::state) only: Option<ConsumerKey>,
    /// What it shows for that.
    pub(in crate::state) local_key: JobKey,
    /// Whether it was late with a split, and has not finished one like the others since.
    pub(in crate::state) slow: bool,
    /// Which folder it keeps rows in; empty is none.
    pub(in crate::state) place: Arc<str>,
    /// Why nothing is written to its cache folder; empty where it is, or there is none.
    pub(in crate::state) disk_off: String,
    pub(in crate::state) worker_type: WorkerType,
    /// The peers that this session was told of.
    pub(in crate::state) peers_sent: Option<Vec<Arc<str>>>,
    /// Since when nobody was charged for what it did not do, and microseconds that its threads have spent and that are not yet taken from
    /// their time: what it did is told a heartbeat later.
    idle_since: Ticks,
    unbilled_us: u64,
}

impl Worker {
    /// A worker that holds leases and has not said hello yet.
    pub(in crate::state) fn absent(address: Arc<str>, now: Ticks, until: Ticks) -> Self {
        Self {
            address,
            threads: 0,
            session: None,
            heard: now,
            answered: now,
            until,
            credit: 0,
            leaving: false,
            leases: BTreeMap::new(),
            begun: BTreeMap::new(),
            gave_way: BTreeMap::new(),
            jobs: BTreeSet::new(),
            splits_done: 0,
            rows_done: 0,
            rows_shared: 0,
            finished: BTreeSet::new(),
            held_up: BTreeSet::new(),
            failed: Vec::new(),
            serves: None,
            only: None,
            local_key: JobKey::default(),
            slow: false,
            place: Arc::default(),
            disk_off: String::new(),
            worker_type: WorkerType::default(),
            peers_sent: None,
            idle_since: now,
            unbilled_us: 0,
        }
    }

    pub(in crate::state) fn begin(&mut self, session: SessionId, address: Arc<str>, threads: u32, now: Ticks) {
        (self.session, self.address, self.threads, self.heard) = (Some(session), address, threads, now);
        (self.credit, self.leaving, self.answered) = (0, false, now);
        (self.idle_since, self.unbilled_us) = (now, 0);
        self.jobs.clear();
    }

    /// Its threads spent so many microseconds.
    pub(in crate::state) fn note_spent(&mut self, micros: u64) {
        self.unbilled_us = self.unbilled_us.saturating_add(micros);
    }

    /// Returns the seconds that it did nothing since it was last asked, as a part of all its threads, if any.
    pub(in crate::state) fn idle(&mut self, now: Ticks) -> Option<f64> {
        let all = ((now - self.idle_since).as_micros() as u64).saturating_mul(self.threads.into());
        self.idle_since = now;
        let idle = all.saturating_sub(self.unbilled_us);
        self.unbilled_us = self.unbilled_us.saturating_sub(all);
        (idle > 0).then(|| idle as f64 / 1e6 / f64::from(self.threads.max(1)))
    }

    /// Returns the splits that it may be working on.
    pub(in crate::state) fn unfinished(&self) -> impl Iterator<Item = &SplitKey> {
        self.leases.iter().filter(|(token, _)| !self.finished.contains(token)).map(|(_, key)| key)
    }

    /// Returns those of them that bring something, as far as it has said.
    pub(in crate::state) fn at_work(&self) -> impl Iterator<Item = &SplitKey> {
        self.unfinished().filter(|key| !self.held_up.contains(&key.0.0))
    }

    /// Returns when it is lost, if nothing is heard of it until then.
    pub(in crate::state) fn expiry(&self, lease: Duration) -> Ticks {
        if self.session.is_some() { self.heard + lease } else { self.until }
    }

    /// Notes that a lease of it ended because its reader could not fetch the split. Readers often notice a death first.
    /// Returns whether it may have died of it.
    pub(in crate::state) fn fail(&mut self, now: Ticks, token: u64, key: SplitKey, lease: Duration) -> bool {
        self.failed.retain(|(_, at)| now - *at <= lease);
        let unfinished = !self.finished.contains(&token);
        if unfinished {
            self.failed.push((key, now));
        }
        unfinished
    }

    /// Says whether a reader failed to fetch from it, and it is heard of all the same: what was heard within a heartbeat
    /// may have been said before.
    pub(in crate::state) fn has_outlived(&self, now: Ticks, heartbeat: Duration) -> bool {
        self.failed.last().is_some_and(|(_, at)| now - *at > heartbeat)
    }

    /// Returns the splits that it may have died of.
    pub(in crate::state) fn suspects(&self, now: Ticks, lease: Duration) -> BTreeSet<SplitKey> {
        let failed = self.failed.iter().filter(|(_, at)| now - *at <= lease).map(|(key, _)| key);
        self.unfinished().chain(failed).copied().collect()
    }

    pub(in crate::state) fn serves(&self, tenant: &str) -> bool {
        self.serves.as_deref().is_none_or(|serves| serves == tenant)
    }

    /// Says whether it may be given splits of a reader of this tenant.
    pub(in crate::state) fn computes_for(&self, tenant: &str, key: ConsumerKey) -> bool {
        self.serves(tenant) && self.only.is_none_or(|only| only == key)
    }

    pub(in crate::state) fn is_local(&self) -> bool {
        self.only.is_some()
    }

    /// Says whether it is a local worker whose machine has no core to spare now.
    fn is_paused(&self) -> bool {
        self.is_local() && self.threads == 0
    }

    /// Lists the leases that it may be working on, in the order in which it does: the highest priority first, then the oldest, and
    /// behind these what is held up.
    pub(in crate::state) fn run_order(&self, priority: impl Fn(&SplitKey) -> u32) -> Vec<(u32, u64)> {
        let unfinished = self.leases.iter().filter(|(token, _)| !self.finished.contains(token));
        let mut order: Vec<_> =
            unfinished.map(|(token, key)| (self.held_up.contains(&key.0.0), priority(key), *token)).collect();
        order.sort_by_key(|(held_up, priority, token)| (*held_up, Reverse(*priority), *token));
        order.into_iter().map(|(_, priority, token)| (priority, token)).collect()
    }

    /// Says whether a lease waits that it was just given: it is at as many that come first as it has threads. Looks at these alone, as it
    /// is asked with each grant.
    pub(in crate::state) fn must_wait(&self, token: u64, priority: impl Fn(&SplitKey) -> u32) -> bool {
        let of = |token: &u64| self.leases.get(token).map(&priority);
        let is_held_up = |at: &u64| self.leases.get(at).is_some_and(|key| self.held_up.contains(&key.0.0));
        let at = self.begun.keys().filter(|at| !self.finished.contains(at) && !is_held_up(at));
        at.filter(|at| **at < token && of(at) >= of(&token)).count() >= self.threads.max(1) as usize
    }

    /// Notes the splits that it is at now: the first in turn, as many as it has threads. Others wait, also those that it had begun with
    /// before some of a higher priority came: nothing is held against it while they do.
    pub(in crate::state) fn note_begun(&mut self, now: Ticks, priority: impl Fn(&SplitKey) -> u32) {
        let order = self.run_order(priority);
        let highest = order.first().map_or(0, |(priority, _)| *priority);
        let (at, waiting) = order.split_at(order.len().min(self.threads.max(1) as usize));
        let leases = &self.leases;
        self.begun.retain(|token, _| leases.contains_key(token));
        self.gave_way.retain(|token, _| leases.contains_key(token));
        for (_, token) in waiting.iter().filter(|(priority, _)| *priority < highest) {
            if self.begun.remove(token).is_some() {
                self.gave_way.insert(*token, now);
            }
        }
        for (_, token) in at {
            self.begun.entry(*token).or_insert(now);
        }
    }

    /// Returns how long it took for a split that is done, as far as `heartbeat`s tell; `None` of one that gave way meanwhile.
    pub(in crate::state) fn split_duration(&self, now: Ticks, token: u64, heartbeat: Duration) -> Option<Duration> {
        // One that nobody saw it begin took less than a heartbeat.
        let took = || self.begun.get(&token).map_or(heartbeat, |begun| now - *begun);
        (!self.gave_way.contains_key(&token)).then(took)
    }

    /// Returns for how long a split that it had begun with has given way.
    pub(in crate::state) fn gives_way_for(&self, now: Ticks, token: u64) -> Option<Duration> {
        self.gave_way.get(&token).map(|since| now - *since)
    }

    pub(in crate::state) fn is_live(&self) -> bool {
        self.session.is_some() && !self.leaving
    }

    /// Says whether it computes for more than one reader.
    pub(in crate::state) fn is_of_fleet(&self) -> bool {
        self.is_live() && !self.is_local()
    }

    /// Says whether it may be given a split. One that is slow has one at a time; a local one that rests has none.
    pub(in crate::state) fn has_room(&self) -> bool {
        self.is_live() && self.credit > 0 && !self.is_paused() && !(self.slow && self.at_work().next().is_some())
    }

    /// Splits that it has asked for and not been given.
    pub(in crate::state) fn credit(&self) -> u32 {
        self.credit
    }

    /// Returns how much it holds, to give more to whoever holds least: of equals, a local one comes behind the others, and
    /// one that is slow behind all.
    pub(in crate::state) fn load(&self) -> usize {
        LOAD_OF_ONE * self.leases.len() + usize::from(self.is_local()) + if self.slow { SLOW_LOAD } else { 0 }
    }

    pub(in crate::state) fn want(&mut self, splits: u32) {
        self.credit = self.credit.saturating_add(splits).min(CREDIT_MAX);
    }

    pub(in crate::state) fn take_room(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }
}
