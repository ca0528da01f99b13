//! What jobs on a dataset have shown, for its tenant's next ones: what its ops cost, what a trainer took for a row, where its jobs
//! came to rest, and how often it was read. It belongs to no job and is in the ledger, so it outlives jobs and this process.
//!
//! It changes with every heartbeat and is written seldom: a first time soon, and then once in [`WRITE_EVERY`] while it changes;
//! [`SOON`] after a reader has left, by when its workers have said the rest; and when this process ends in peace.
//! Bounds: [`DATASETS_MAX`] datasets, the longest unheard of goes; [`RESTS_MAX`] places of rest of each; and of its ops what `ops` says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Ticks;
use forebay_policy::placement::Objective;
use forebay_policy::scaling::forebay::Rest;
use forebay_proto::OpSpent;

use super::op_costs::Ops;
use crate::records::{At, DatasetKey, JobRecord, LearnedRecord, Ledger, RestRecord, Update};
use crate::state::{Effect, State};

/// Datasets that are remembered.
pub(in crate::state) const DATASETS_MAX: usize = 128;
/// Places of rest of one dataset: of each number of consumers, and of each aim, the last.
pub(in crate::state) const RESTS_MAX: usize = 8;
/// How often one dataset is written while jobs on it run.
pub(in crate::state) const WRITE_EVERY: Duration = Duration::from_secs(60);
/// When it is written that is worth not waiting for that long. It is written no more often than this.
const SOON: Duration = Duration::from_secs(2);

/// All datasets; what was heard of last is at the end.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Learned {
    known: VecDeque<Known>,
    next_number: u64,
}

/// One of them.
#[derive(Debug, Clone)]
struct Known {
    tenant: String,
    dataset: String,
    ops: Ops,
    rests: VecDeque<RestRecord>,
    /// Seconds of a trainer for a row.
    step: Option<f64>,
    epochs_read: f64,
    /// As it was written, whether there is more, and when that is written.
    written: Option<Arc<LearnedRecord>>,
    is_more: bool,
    due: Ticks,
}

impl Known {
    fn of(record: &Arc<LearnedRecord>) -> Self {
        Self {
            tenant: record.tenant.clone(),
            dataset: record.dataset.clone(),
            ops: Ops::of(&record.ops),
            rests: record.rests.iter().cloned().collect(),
            step: record.step,
            epochs_read: record.epochs_read,
            written: Some(record.clone()),
            is_more: false,
            due: Ticks(0),
        }
    }

    fn is_of(&self, job: &JobRecord) -> bool {
        (&self.tenant, &self.dataset) == (&job.tenant, &job.dataset)
    }

    fn record(&self, number: u64) -> Arc<LearnedRecord> {
        let (tenant, dataset) = (self.tenant.clone(), self.dataset.clone());
        let (ops, rests) = (self.ops.records(), self.rests.iter().cloned().collect());
        let (step, epochs_read) = (self.step, self.epochs_read);
        Arc::new(LearnedRecord { tenant, dataset, number, ops, rests, step, epochs_read })
    }
}

impl Learned {
    pub(in crate::state) fn recover(ledger: &Ledger) -> Self {
        let mut records: Vec<_> = ledger.learned.values().collect();
        records.sort_by_key(|record| record.number);
        let next_number = records.last().map_or(0, |record| record.number + 1);
        Self { known: records.into_iter().map(Known::of).collect(), next_number }
    }

    /// Returns what is known of a job's dataset, of which there is more now.
    fn more(&mut self, now: Ticks, job: &JobRecord, out: &mut Vec<Effect>) -> &mut Known {
        let known = self.known.iter().position(|known| known.is_of(job)).and_then(|at| self.known.remove(at));
        while known.is_none() && self.known.len() >= DATASETS_MAX {
            let oldest = self.known.pop_front();
            out.extend(oldest.and_then(|known| known.written).map(|r| Effect::Remember(Update::Forgotten(r.key()))));
        }
        let new = || Known {
            tenant: job.tenant.clone(),
            dataset: job.dataset.clone(),
            ops: Ops::default(),
            rests: VecDeque::new(),
            step: None,
            epochs_read: 0.0,
            written: None,
            is_more: true,
            due: now + SOON,
        };
        self.known.push_back(Known { is_more: true, ..known.unwrap_or_else(new) });
        let last = self.known.len() - 1;
        &mut self.known[last]
    }

    fn known(&self, job: &JobRecord) -> Option<&Known> {
        self.known.iter().rev().find(|known| known.is_of(job))
    }

    /// Returns what ops of the jobs on a job's dataset did.
    pub(in crate::state) fn ops(&self, job: &JobRecord) -> Option<&Ops> {
        self.known(job).map(|known| &known.ops)
    }

    /// Ops of a job did more.
    pub(in crate::state) fn take(
        &mut self,
        now: Ticks,
        job: &JobRecord,
        at: At,
        said: &[OpSpent],
        out: &mut Vec<Effect>,
    ) {
        self.more(now, job, out).ops.take(now, at, said);
    }

    /// A consumer of a job has read so many epochs more.
    pub(in crate::state) fn read(&mut self, now: Ticks, job: &JobRecord, epochs: u64, out: &mut Vec<Effect>) {
        self.more(now, job, out).epochs_read += epochs as f64 / f64::from(job.consumers.max(1));
    }

    /// Returns how many whole epochs of a job's dataset were read.
    pub(in crate::state) fn epochs_read(&self, job: &JobRecord) -> u32 {
        // Thirds may add up to less than one.
        self.known(job).map_or(0, |known| (known.epochs_read + 1e-6) as u32)
    }

    /// Returns where a job with as many consumers, on the same samples and with the same aim, came to rest last.
    pub(in crate::state) fn rest(&self, job: &JobRecord, objective: &Objective) -> Option<Rest> {
        let objective = objective.to_string();
        let is_alike = |r: &&RestRecord| (r.consumers, &r.objective) == (job.consumers, &objective);
        self.known(job)?.rests.iter().find(is_alike).map(|r| r.rest)
    }

    /// Returns seconds that a trainer of such a job took for a row.
    pub(in crate::state) fn step(&self, job: &JobRecord) -> Option<f64> {
        self.known(job)?.step
    }

    /// A trainer takes so many seconds for a row.
    pub(in crate::state) fn take_step(&mut self, now: Ticks, job: &JobRecord, step: f64, out: &mut Vec<Effect>) {
        if step.is_finite() && step > 0.0 {
            self.more(now, job, out).step = Some(step);
        }
    }

    /// A job is at rest.
    pub(in crate::state) fn come_to_rest(
        &mut self,
        now: Ticks,
        job: &JobRecord,
        objective: &Objective,
        rest: Rest,
        out: &mut Vec<Effect>,
    ) {
        if self.rest(job, objective) == Some(rest) {
            return;
        }
        let (consumers, objective) = (job.consumers, objective.to_string());
        let rests = &mut self.more(now, job, out).rests;
        rests.retain(|r| (r.consumers, &r.objective) != (consumers, &objective));
        if rests.len() == RESTS_MAX {
            rests.pop_front();
        }
        rests.push_back(RestRecord { consumers, objective, rest });
    }

    /// A reader of a job has left: what is known is written once all of it is told.
    pub(in crate::state) fn write_soon(&mut self, now: Ticks, job: &JobRecord) {
        if let Some(known) = self.known.iter_mut().find(|known| known.is_of(job)) {
            known.due = known.due.min(now + SOON);
        }
    }

    /// Writes what is due.
    pub(in crate::state) fn write(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        self.write_if(|known| now >= known.due, now + WRITE_EVERY, out);
    }

    fn write_if(&mut self, is_due: impl Fn(&Known) -> bool, next: Ticks, out: &mut Vec<Effect>) {
        for known in self.known.iter_mut().filter(|known| known.is_more && is_due(known)) {
            let record = known.record(self.next_number);
            self.next_number += 1;
            (known.written, known.is_more, known.due) = (Some(record.clone()), false, next);
            out.push(Effect::Remember(Update::Learned(record)));
        }
    }

    /// Returns what was written.
    pub(in crate::state) fn written(&self) -> impl Iterator<Item = (DatasetKey, Arc<LearnedRecord>)> {
        self.known.iter().filter_map(|known| known.written.as_ref()).map(|record| (record.key(), record.clone()))
    }
}

impl State {
    /// Writes what is left of what was learned, at the end.
    pub(crate) fn write_learned(&mut self, out: &mut Vec<Effect>) {
        let never = Ticks(u64::MAX);
        self.learned.write_if(|_| true, never, out);
    }
}
