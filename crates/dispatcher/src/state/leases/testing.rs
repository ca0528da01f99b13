//! Views and changes of leases for tests of the whole state.

use std::sync::Arc;

use forebay_core::{Ticks, WorkerId};

use crate::records::{ConsumerKey, Position};
use crate::state::leases::grants::hints::{GrantHint, Lookahead};
use crate::state::leases::machine::Leases;

/// A lease of a split: its position, its worker and its token.
pub(in crate::state) type HeldSplit = (Position, WorkerId, u64);

impl Leases {
    /// Replaces each hint for grants by the result of a function.
    pub(in crate::state) fn replace_hints(&mut self, replace: impl Fn(Box<dyn GrantHint>) -> Box<dyn GrantHint>) {
        let none = || Box::new(NoHint);
        self.affinity = replace(std::mem::replace(&mut self.affinity, none()));
        self.sharing = replace(std::mem::replace(&mut self.sharing, none()));
    }

    /// Returns the first leases of a consumer's splits, and its backup leases.
    pub(in crate::state) fn held(&self, key: ConsumerKey) -> (Vec<HeldSplit>, Vec<HeldSplit>) {
        let consumer = self.consumer(key).expect("a consumer");
        let [first, second] = [consumer.leases(), consumer.backups()]
            .map(|leases| leases.iter().map(|(p, h)| (*p, h.worker, h.token)).collect());
        (first, second)
    }

    pub(in crate::state) fn frontier(&self, key: ConsumerKey) -> Position {
        self.consumer(key).expect("a consumer").frontier()
    }

    pub(in crate::state) fn is_attached(&self, key: ConsumerKey) -> bool {
        self.consumer(key).expect("a consumer").attached.is_some()
    }

    pub(in crate::state) fn is_finished(&self, job: u64) -> bool {
        self.jobs[&job].is_finished()
    }

    pub(in crate::state) fn second_leases(&self, job: u64) -> u64 {
        self.jobs[&job].second_leases
    }

    pub(in crate::state) fn split_durations(&self, job: u64) -> String {
        format!("{:?}", self.jobs[&job].split_durations)
    }

    /// Returns the active consumers of a job.
    pub(in crate::state) fn active_of(&self, job: u64) -> Vec<ConsumerKey> {
        self.active_consumers_of(job).map(|(key, _)| key).collect()
    }

    /// Returns the number of splits in a consumer's first epoch for which the affinity hint names a worker.
    pub(in crate::state) fn affinities(&self, key: ConsumerKey, splits: u64) -> usize {
        let lookahead = Lookahead { splits: 1, workers: 1 };
        let worker = |ordinal| self.affinity.worker(key, Position::new(0, ordinal), lookahead);
        (0..splits).filter(|ordinal| worker(*ordinal).is_some()).count()
    }

    /// Returns the tokens of a worker's leases.
    pub(in crate::state) fn tokens(&self, worker: WorkerId) -> Vec<u64> {
        self.workers[&worker].leases.keys().copied().collect()
    }

    /// Returns the consumers whose splits a worker has begun.
    pub(in crate::state) fn begun(&self, worker: WorkerId) -> Vec<ConsumerKey> {
        let worker = &self.workers[&worker];
        worker.begun.keys().map(|token| worker.leases[token].0).collect()
    }

    pub(in crate::state) fn has_finished_splits(&self, worker: WorkerId) -> bool {
        !self.workers[&worker].finished.is_empty()
    }

    pub(in crate::state) fn set_slow(&mut self, worker: WorkerId) {
        self.workers.get_mut(&worker).expect("a worker").slow = true;
    }

    pub(in crate::state) fn set_worker_threads(&mut self, worker: WorkerId, threads: u32) {
        self.workers.get_mut(&worker).expect("a worker").threads = threads;
    }

    pub(in crate::state) fn lose(&mut self, now: Ticks, worker: WorkerId) {
        self.lose_worker(now, worker, &mut Vec::new());
    }

    pub(in crate::state) fn serves(&self, worker: WorkerId) -> Option<Arc<str>> {
        self.workers[&worker].serves.clone()
    }
}

/// Names no worker.
#[derive(Debug)]
struct NoHint;

impl GrantHint for NoHint {
    fn note(&mut self, _event: &crate::state::leases::grants::hints::HintEvent<'_>) {}

    fn worker(&self, _key: ConsumerKey, _position: Position, _lookahead: Lookahead) -> Option<WorkerId> {
        None
    }

    fn knows(&self, _job: u64) -> bool {
        false
    }
}
