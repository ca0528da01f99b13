//! One worker: its session, its credit, and the leases that it holds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Ticks, WorkerId};
use forebay_plan::BitVersions;
use forebay_proto::JobKey;

use crate::records::{ConsumerKey, SplitKey};
use crate::state::input::SessionId;
use crate::state::leases::job::Job;
use crate::state::leases::views::WorkerView;
use crate::state::lost_workers::{Cause, LostWorker};

/// The most splits that a worker may request.
const CREDIT_MAX: u32 = 1 << 16;
/// The part of one lease in [`Worker::load`].
pub(in crate::state::leases) const LOAD_OF_ONE: usize = 2;
/// Added to the load of a slow worker: more than the leases of any worker add up to.
const SLOW_LOAD: usize = 1 << 32;

/// The unfinished leases of a worker, with their priorities and tokens.
pub(in crate::state::leases) struct RunOrder {
    /// The leases that the worker computes now, in its order.
    pub(in crate::state::leases) begun: Vec<(u32, u64)>,
    /// The leases behind these.
    pub(in crate::state::leases) waiting: Vec<(u32, u64)>,
}

#[derive(Debug, Clone)]
pub(in crate::state::leases) struct Worker {
    pub(in crate::state::leases) address: Arc<str>,
    pub(in crate::state::leases) threads: u32,
    pub(in crate::state::leases) session: Option<SessionId>,
    /// Whether it has said hello since this process leads.
    has_come: bool,
    /// When the worker's last message came; without a session, when the session ended.
    pub(in crate::state::leases) heard: Ticks,
    /// When the dispatcher last answered a heartbeat, or the hello.
    pub(in crate::state::leases) answered: Ticks,
    /// Without a session: when its leases go to other workers.
    pub(in crate::state::leases) until: Ticks,
    /// Splits that the worker requested and did not get yet.
    credit: u32,
    pub(in crate::state::leases) leaving: bool,
    /// By token.
    pub(in crate::state::leases) leases: BTreeMap<u64, SplitKey>,
    /// When the worker began the splits that it computes now, by token: see [`Worker::note_begun`].
    pub(in crate::state::leases) begun: BTreeMap<u64, Ticks>,
    /// When a split that it had begun was preempted by one of a higher priority, by token. Its threads first finish
    /// their morsels.
    gave_way: BTreeMap<u64, Ticks>,
    /// Jobs whose definition was sent in this session.
    pub(in crate::state::leases) jobs: BTreeSet<u64>,
    pub(in crate::state::leases) splits_done: u64,
    pub(in crate::state::leases) rows_done: u64,
    pub(in crate::state::leases) rows_shared: u64,
    /// Tokens of leases that the worker reported as finished.
    pub(in crate::state::leases) finished: BTreeSet<u64>,
    /// Jobs that the worker reported as held up: see `held_up`. It reports them again in a new session.
    pub(in crate::state::leases) held_up: BTreeSet<u64>,
    /// Unfinished splits that their consumer could not fetch, and when: one of them may have ended the worker.
    failed: Vec<(SplitKey, Ticks)>,
    /// The tenant that the worker computes for; `None` for all tenants.
    pub(in crate::state::leases) serves: Option<Arc<str>>,
    /// Of a local worker: the only consumer that it computes for. It runs on that consumer's host.
    pub(in crate::state::leases) only: Option<ConsumerKey>,
    /// The key that a local worker shows to prove that its consumer started it.
    pub(in crate::state::leases) local_key: JobKey,
    /// Whether the worker was late with a split, and has not finished one in the usual time since.
    pub(in crate::state::leases) slow: bool,
    /// The bits that it computes.
    pub(in crate::state::leases) bits: BitVersions,
    /// The jobs that began with other bits, and how they differ: the worker gets none of their splits.
    pub(in crate::state::leases) differs: BTreeMap<u64, String>,
    /// Why the worker writes nothing to its cache folder; empty if it writes there or has no folder.
    pub(in crate::state::leases) disk_off: String,
}

impl Worker {
    /// A worker that holds leases and has not said hello yet.
    pub(in crate::state::leases) fn absent(address: Arc<str>, now: Ticks, until: Ticks) -> Self {
        Self {
            address,
            threads: 0,
            session: None,
            has_come: false,
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
            disk_off: String::new(),
            bits: BitVersions::default(),
            differs: BTreeMap::new(),
        }
    }

    pub(in crate::state::leases) fn begin(&mut self, session: SessionId, address: Arc<str>, threads: u32, now: Ticks) {
        (self.session, self.address, self.threads, self.heard) = (Some(session), address, threads, now);
        (self.credit, self.leaving, self.answered) = (0, false, now);
        self.has_come = true;
        self.jobs.clear();
    }

    /// Returns the splits that the worker has not reported as finished.
    pub(in crate::state::leases) fn unfinished(&self) -> impl Iterator<Item = &SplitKey> {
        self.leases.iter().filter(|(token, _)| !self.finished.contains(token)).map(|(_, key)| key)
    }

    /// Returns the unfinished splits of jobs that are not held up at this worker.
    pub(in crate::state::leases) fn at_work(&self) -> impl Iterator<Item = &SplitKey> {
        self.unfinished().filter(|key| !self.held_up.contains(&key.0.0))
    }

    /// Returns when the worker is lost unless it sends something before.
    pub(in crate::state::leases) fn expiry(&self, lease: Duration) -> Ticks {
        if self.session.is_some() { self.heard + lease } else { self.until }
    }

    /// Notes that a lease ended because its consumer could not fetch the split: consumers often notice a death first.
    /// Returns whether this split may have ended the worker.
    pub(in crate::state::leases) fn fail(&mut self, now: Ticks, token: u64, key: SplitKey, lease: Duration) -> bool {
        self.failed.retain(|(_, at)| now - *at <= lease);
        let unfinished = !self.finished.contains(&token);
        if unfinished {
            self.failed.push((key, now));
        }
        unfinished
    }

    /// Returns whether the worker sent a message after a consumer failed to fetch from it. A message within one
    /// heartbeat of the failure may be older than the failure.
    pub(in crate::state::leases) fn has_outlived(&self, now: Ticks, heartbeat: Duration) -> bool {
        self.failed.last().is_some_and(|(_, at)| now - *at > heartbeat)
    }

    /// Returns the splits that may have ended the worker.
    pub(in crate::state::leases) fn suspects(&self, now: Ticks, lease: Duration) -> BTreeSet<SplitKey> {
        let failed = self.failed.iter().filter(|(_, at)| now - *at <= lease).map(|(key, _)| key);
        self.unfinished().chain(failed).copied().collect()
    }

    pub(in crate::state::leases) fn serves(&self, tenant: &str) -> bool {
        self.serves.as_deref().is_none_or(|serves| serves == tenant)
    }

    /// Returns whether the worker may get splits of this consumer of this tenant.
    pub(in crate::state::leases) fn computes_for(&self, tenant: &str, key: ConsumerKey) -> bool {
        self.serves(tenant) && self.only.is_none_or(|only| only == key) && !self.differs.contains_key(&key.0)
    }

    /// Compares the worker's bits with the bits that a job began with. A difference goes to the log.
    pub(in crate::state::leases) fn compare(&mut self, job: &Job) {
        if self.session.is_none() || job.is_over() {
            return;
        }
        if let Some(difference) = self.bits.difference(&job.bits) {
            let (name, worker) = (&job.record.name, &*self.address);
            tracing::warn!(
                job = name,
                worker,
                difference,
                "a worker gets no splits of a job that began with other bits"
            );
            self.differs.insert(job.record.id, difference);
        }
    }

    pub(in crate::state::leases) fn is_local(&self) -> bool {
        self.only.is_some()
    }

    /// Returns whether this is a local worker without threads: its host has no core to spare now.
    fn is_paused(&self) -> bool {
        self.is_local() && self.threads == 0
    }

    /// Lists the unfinished leases in the order in which the worker computes them: the highest priority first, then
    /// consumers in turn, each with its oldest split first, and those of held-up jobs last.
    pub(in crate::state::leases) fn run_order(&self, priority: impl Fn(&SplitKey) -> u32) -> RunOrder {
        let mut turns: BTreeMap<ConsumerKey, usize> = BTreeMap::new();
        let unfinished = self.leases.iter().filter(|(token, _)| !self.finished.contains(token));
        let mut order: Vec<_> = unfinished
            .map(|(token, key)| {
                let turn = turns.entry(key.0).or_default();
                *turn += 1;
                (self.held_up.contains(&key.0.0), Reverse(priority(key)), *turn, *token)
            })
            .collect();
        order.sort_unstable();
        let mut computed = order.len().min(self.threads.max(1) as usize);
        // The threads take turns: the first split of each consumer of one priority is under way.
        while let (Some(last), Some(next)) = (computed.checked_sub(1).and_then(|at| order.get(at)), order.get(computed))
            && (next.0, next.1, next.2) == (last.0, last.1, 1)
        {
            computed += 1;
        }
        let mut turns = order.into_iter().map(|(_, Reverse(priority), _, token)| (priority, token));
        let begun = turns.by_ref().take(computed).collect();
        RunOrder { begun, waiting: turns.collect() }
    }

    /// Returns whether a lease that was just granted must wait: its consumer has a split under way, and the worker is
    /// busy with as many leases that come first as it has threads. Each grant calls this, so it looks at the begun
    /// leases only.
    pub(in crate::state::leases) fn must_wait(&self, token: u64, priority: impl Fn(&SplitKey) -> u32) -> bool {
        let of = |token: &u64| self.leases.get(token).map(&priority);
        let consumer = |token: &u64| self.leases.get(token).map(|key| key.0);
        let is_held_up = |at: &u64| self.leases.get(at).is_some_and(|key| self.held_up.contains(&key.0.0));
        let at = self.begun.keys().filter(|at| !self.finished.contains(at) && !is_held_up(at));
        let before: Vec<_> = at.filter(|at| **at < token && of(at) >= of(&token)).collect();
        before.len() >= self.threads.max(1) as usize && before.iter().any(|at| consumer(at) == consumer(&token))
    }

    /// Notes the splits that the worker computes now. The other splits wait, or are preempted by a higher
    /// priority: their waiting time does not count as late.
    pub(in crate::state::leases) fn note_begun(&mut self, now: Ticks, priority: impl Fn(&SplitKey) -> u32) {
        let RunOrder { begun, waiting } = self.run_order(priority);
        let highest = begun.first().map_or(0, |(priority, _)| *priority);
        let leases = &self.leases;
        self.begun.retain(|token, _| leases.contains_key(token));
        self.gave_way.retain(|token, _| leases.contains_key(token));
        for (_, token) in waiting.iter().filter(|(priority, _)| *priority < highest) {
            if self.begun.remove(token).is_some() {
                self.gave_way.insert(*token, now);
            }
        }
        for (_, token) in begun {
            self.begun.entry(token).or_insert(now);
        }
    }

    /// Returns how long a finished split took, as far as the `heartbeat`s tell; `None` if it was preempted in between.
    pub(in crate::state::leases) fn split_duration(
        &self,
        now: Ticks,
        token: u64,
        heartbeat: Duration,
    ) -> Option<Duration> {
        // A split whose start no heartbeat showed took less than a heartbeat.
        let took = || self.begun.get(&token).map_or(heartbeat, |begun| now - *begun);
        (!self.gave_way.contains_key(&token)).then(took)
    }

    /// Returns for how long a begun split has been preempted.
    pub(in crate::state::leases) fn gives_way_for(&self, now: Ticks, token: u64) -> Option<Duration> {
        self.gave_way.get(&token).map(|since| now - *since)
    }

    /// Returns the view of it for the other machines.
    pub(in crate::state::leases) fn view(&self, id: WorkerId) -> WorkerView<'_> {
        let (address, threads, only) = (&self.address, self.threads, self.only);
        WorkerView { id, address, threads, serves: self.serves.as_ref(), only, is_live: self.is_live() }
    }

    /// Returns what is kept of it when it is lost now.
    pub(in crate::state::leases) fn lost(&self, id: WorkerId, now: Ticks) -> LostWorker {
        let cause = match self.session {
            Some(_) => Cause::Silent(now - self.heard),
            None if self.has_come => Cause::Broken,
            None => Cause::Absent,
        };
        LostWorker {
            id,
            address: self.address.clone(),
            threads: self.threads,
            serves: self.serves.clone(),
            is_local: self.is_local(),
            done: [self.splits_done, self.rows_done, self.rows_shared],
            heard: self.heard,
            at: now,
            cause,
        }
    }

    pub(in crate::state::leases) fn is_live(&self) -> bool {
        self.session.is_some() && !self.leaving
    }

    /// Returns whether the worker is connected and serves more than one consumer.
    pub(in crate::state::leases) fn is_of_fleet(&self) -> bool {
        self.is_live() && !self.is_local()
    }

    /// Returns whether the worker may get a split. A slow worker gets one at a time; a paused local worker gets none.
    pub(in crate::state::leases) fn has_room(&self) -> bool {
        self.is_live() && self.credit > 0 && !self.is_paused() && !(self.slow && self.at_work().next().is_some())
    }

    /// Returns the number of splits that the worker requested and did not get yet.
    pub(in crate::state::leases) fn credit(&self) -> u32 {
        self.credit
    }

    /// Returns the worker's load: the scheduler prefers the least. Among equals a local worker comes after the others,
    /// and a slow worker comes after all.
    pub(in crate::state::leases) fn load(&self) -> usize {
        LOAD_OF_ONE * self.leases.len() + usize::from(self.is_local()) + if self.slow { SLOW_LOAD } else { 0 }
    }

    pub(in crate::state) fn want(&mut self, splits: u32) {
        self.credit = self.credit.saturating_add(splits).min(CREDIT_MAX);
    }

    pub(in crate::state::leases) fn take_room(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }
}
