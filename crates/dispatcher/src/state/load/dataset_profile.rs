//! Profiles of datasets, for the next jobs on them: the cost of ops, a trainer's time per row, the number of workers in
//! steady states of jobs, and the number of epochs read. A profile belongs to no job and is in the ledger, so it
//! outlives jobs and this process.
//!
//! It changes with every heartbeat and is written seldom: soon after its first change, then once in [`WRITE_EVERY`]
//! while it changes, [`SOON`] after a consumer has left (its workers have reported the rest by then), and when this
//! process stops in order.
//!
//! Bounds: [`DATASETS_MAX`] datasets, of which the least recently used goes; [`STEADY_STATES_MAX`] steady states of
//! each; the bounds of `op_costs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Ticks;
use forebay_policy::placement::Objective;
use forebay_policy::scaling::SteadyState;
use forebay_proto::OpSpent;

use super::op_costs::OpCosts;
use crate::records::{At, DatasetKey, JobRecord, Ledger, ProfileRecord, SteadyStateRecord};

/// Datasets that are remembered.
pub(in crate::state) const DATASETS_MAX: usize = 128;
/// Steady states of one dataset: the last one for each number of consumers and each objective.
pub(in crate::state) const STEADY_STATES_MAX: usize = 8;
/// How often a profile is written while jobs on its dataset run.
pub(in crate::state) const WRITE_EVERY: Duration = Duration::from_secs(60);
/// How soon a first or a last change is written. No profile is written more often than this.
const SOON: Duration = Duration::from_secs(2);

/// All profiles; the most recently used is at the end.
#[derive(Debug, Default)]
pub(in crate::state) struct DatasetProfiles {
    profiles: VecDeque<DatasetProfile>,
    next_number: u64,
    /// Changes that the ledger must soon hold.
    changes: Vec<ProfileChange>,
}

/// A change of the profiles in the ledger. No message waits until it is durable.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::state) enum ProfileChange {
    Written(Arc<ProfileRecord>),
    Gone(DatasetKey),
}

/// The profile of one dataset.
#[derive(Debug, Clone)]
struct DatasetProfile {
    tenant: String,
    dataset: String,
    ops: OpCosts,
    steady_states: VecDeque<SteadyStateRecord>,
    /// Seconds that a trainer takes per row.
    step: Option<f64>,
    epochs_read: f64,
    /// The profile as last written, whether it changed since, and when it is written next.
    written: Option<Arc<ProfileRecord>>,
    is_dirty: bool,
    due: Ticks,
}

impl DatasetProfile {
    fn of(record: &Arc<ProfileRecord>) -> Self {
        Self {
            tenant: record.tenant.clone(),
            dataset: record.dataset.clone(),
            ops: OpCosts::of(&record.ops),
            steady_states: record.steady_states.iter().cloned().collect(),
            step: record.step,
            epochs_read: record.epochs_read,
            written: Some(record.clone()),
            is_dirty: false,
            due: Ticks(0),
        }
    }

    fn is_of(&self, job: &JobRecord) -> bool {
        (&self.tenant, &self.dataset) == (&job.tenant, &job.dataset)
    }

    fn record(&self, number: u64) -> Arc<ProfileRecord> {
        let (tenant, dataset) = (self.tenant.clone(), self.dataset.clone());
        let (ops, steady_states) = (self.ops.records(), self.steady_states.iter().cloned().collect());
        let (step, epochs_read) = (self.step, self.epochs_read);
        Arc::new(ProfileRecord { tenant, dataset, number, ops, steady_states, step, epochs_read })
    }
}

impl DatasetProfiles {
    pub(in crate::state) fn recover(ledger: &Ledger) -> Self {
        let mut records: Vec<_> = ledger.profiles.values().collect();
        records.sort_by_key(|record| record.number);
        let next_number = records.last().map_or(0, |record| record.number + 1);
        Self { profiles: records.into_iter().map(DatasetProfile::of).collect(), next_number, changes: Vec::new() }
    }

    /// Takes the changes that must be written.
    pub(in crate::state) fn take_changes(&mut self) -> Vec<ProfileChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the profile of a job's dataset to change it, and marks it as changed and as most recently used.
    fn touch(&mut self, now: Ticks, job: &JobRecord) -> &mut DatasetProfile {
        let profile =
            self.profiles.iter().position(|profile| profile.is_of(job)).and_then(|at| self.profiles.remove(at));
        while profile.is_none() && self.profiles.len() >= DATASETS_MAX {
            let oldest = self.profiles.pop_front();
            let written = oldest.and_then(|profile| profile.written);
            self.changes.extend(written.map(|record| ProfileChange::Gone(record.key())));
        }
        let new = || DatasetProfile {
            tenant: job.tenant.clone(),
            dataset: job.dataset.clone(),
            ops: OpCosts::default(),
            steady_states: VecDeque::new(),
            step: None,
            epochs_read: 0.0,
            written: None,
            is_dirty: true,
            due: now + SOON,
        };
        self.profiles.push_back(DatasetProfile { is_dirty: true, ..profile.unwrap_or_else(new) });
        let last = self.profiles.len() - 1;
        &mut self.profiles[last]
    }

    fn profile(&self, job: &JobRecord) -> Option<&DatasetProfile> {
        self.profiles.iter().rev().find(|profile| profile.is_of(job))
    }

    /// Returns the op costs of all jobs on a job's dataset.
    pub(in crate::state) fn ops(&self, job: &JobRecord) -> Option<&OpCosts> {
        self.profile(job).map(|profile| &profile.ops)
    }

    /// Adds op costs that a job reported.
    pub(in crate::state) fn add_ops(&mut self, now: Ticks, job: &JobRecord, at: At, said: &[OpSpent]) {
        self.touch(now, job).ops.take(now, at, said);
    }

    /// Adds epochs that a consumer of a job has read.
    pub(in crate::state) fn add_epochs(&mut self, now: Ticks, job: &JobRecord, epochs: u64) {
        self.touch(now, job).epochs_read += epochs as f64 / f64::from(job.consumers.max(1));
    }

    /// Returns how many whole epochs of a job's dataset were read.
    pub(in crate::state) fn epochs_read(&self, job: &JobRecord) -> u32 {
        // Three thirds may add up to slightly less than one.
        self.profile(job).map_or(0, |profile| (profile.epochs_read + 1e-6) as u32)
    }

    /// Returns the last steady state of a job with as many consumers, on the same samples and with the same objective.
    pub(in crate::state) fn steady_state(&self, job: &JobRecord, objective: &Objective) -> Option<SteadyState> {
        let objective = objective.to_string();
        let is_alike = |r: &&SteadyStateRecord| (r.consumers, &r.objective) == (job.consumers, &objective);
        self.profile(job)?.steady_states.iter().find(is_alike).map(|r| r.state)
    }

    /// Returns the seconds that a trainer of such a job took per row.
    pub(in crate::state) fn step(&self, job: &JobRecord) -> Option<f64> {
        self.profile(job)?.step
    }

    /// Notes the seconds that a trainer takes per row.
    pub(in crate::state) fn note_step(&mut self, now: Ticks, job: &JobRecord, step: f64) {
        if step.is_finite() && step > 0.0 {
            self.touch(now, job).step = Some(step);
        }
    }

    /// Notes that a job is steady.
    pub(in crate::state) fn note_steady_state(
        &mut self,
        now: Ticks,
        job: &JobRecord,
        objective: &Objective,
        state: SteadyState,
    ) {
        if self.steady_state(job, objective) == Some(state) {
            return;
        }
        let (consumers, objective) = (job.consumers, objective.to_string());
        let steady_states = &mut self.touch(now, job).steady_states;
        steady_states.retain(|r| (r.consumers, &r.objective) != (consumers, &objective));
        if steady_states.len() == STEADY_STATES_MAX {
            steady_states.pop_front();
        }
        steady_states.push_back(SteadyStateRecord { consumers, objective, state });
    }

    /// A consumer of a job has left: writes the profile once the job's workers have reported the rest.
    pub(in crate::state) fn write_soon(&mut self, now: Ticks, job: &JobRecord) {
        if let Some(profile) = self.profiles.iter_mut().find(|profile| profile.is_of(job)) {
            profile.due = profile.due.min(now + SOON);
        }
    }

    /// Writes the profiles that are due.
    pub(in crate::state) fn write(&mut self, now: Ticks) {
        self.write_if(|profile| now >= profile.due, now + WRITE_EVERY);
    }

    /// Writes all changed profiles when this process stops.
    pub(in crate::state) fn write_all(&mut self) {
        self.write_if(|_| true, Ticks(u64::MAX));
    }

    fn write_if(&mut self, is_due: impl Fn(&DatasetProfile) -> bool, next: Ticks) {
        for profile in self.profiles.iter_mut().filter(|profile| profile.is_dirty && is_due(profile)) {
            let record = profile.record(self.next_number);
            self.next_number += 1;
            (profile.written, profile.is_dirty, profile.due) = (Some(record.clone()), false, next);
            self.changes.push(ProfileChange::Written(record));
        }
    }

    /// Returns the profiles as they were written.
    pub(in crate::state) fn written(&self) -> impl Iterator<Item = (DatasetKey, Arc<ProfileRecord>)> {
        self.profiles.iter().filter_map(|profile| profile.written.as_ref()).map(|record| (record.key(), record.clone()))
    }
}
