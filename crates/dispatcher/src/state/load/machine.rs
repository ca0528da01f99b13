//! The load machine: the measurements of each job, and of each dataset.

use std::collections::BTreeMap;

use forebay_core::{Ticks, WorkerId};
use forebay_policy::placement::Objective;
use forebay_policy::scaling::{Limits, Observation, SteadyState};
use forebay_proto::{ConsumerHeartbeat, ConsumerStatus, OpSpent, OpStatus, Sent, Spent, WorkerCaching};

use super::boundary_costs::BoundaryCosts;
use super::caching::CachingReports;
use super::consumer_reports::ConsumerReports;
use super::dataset_profile::DatasetProfiles;
use super::job_load::{JobLoad, Workforce};
use super::op_costs::OpCosts;
use crate::records::{At, JobRecord, Ledger};
use crate::state::leases::views::{JobView, Reporter};

/// Measurements, as workers and consumers report them.
#[derive(Debug)]
pub(in crate::state) struct Load {
    jobs: BTreeMap<u64, JobMeasurements>,
    profiles: DatasetProfiles,
    /// Microseconds that the fleet's workers reported as spent on jobs.
    spent_us: u64,
}

/// The measurements of one job.
#[derive(Debug)]
struct JobMeasurements {
    load: JobLoad,
    op_costs: OpCosts,
    caching: CachingReports,
    reports: ConsumerReports,
}

impl Load {
    /// Returns the dataset profiles of a ledger, and no measurements.
    pub(in crate::state) fn recover(ledger: &Ledger) -> Self {
        Self { jobs: BTreeMap::new(), profiles: DatasetProfiles::recover(ledger), spent_us: 0 }
    }

    pub(in crate::state) fn profiles(&self) -> &DatasetProfiles {
        &self.profiles
    }

    pub(in crate::state) fn profiles_mut(&mut self) -> &mut DatasetProfiles {
        &mut self.profiles
    }

    #[cfg(test)]
    pub(in crate::state) fn spent_us(&self) -> u64 {
        self.spent_us
    }

    pub(in crate::state) fn add_job(&mut self, now: Ticks, job: u64) {
        let (op_costs, caching, reports) = Default::default();
        let load = JobLoad::new(now, self.spent_us);
        self.jobs.insert(job, JobMeasurements { load, op_costs, caching, reports });
    }

    pub(in crate::state) fn remove_job(&mut self, job: u64) {
        self.jobs.remove(&job);
    }

    /// Forgets the cache of a lost worker.
    pub(in crate::state) fn forget_worker(&mut self, worker: WorkerId) {
        self.jobs.values_mut().for_each(|job| job.caching.forget(worker));
    }

    /// Drops the sums of all windows: this process was stopped for a while.
    pub(in crate::state) fn restart(&mut self, now: Ticks) {
        self.restart_all_but(now, &[]);
    }

    /// Drops the sums of the windows of jobs that are not among these.
    pub(in crate::state) fn restart_all_but(&mut self, now: Ticks, read: &[JobView<'_>]) {
        let spent = self.spent_us;
        let is_read = |id: &u64| read.binary_search_by_key(id, JobView::id).is_ok();
        self.jobs.iter_mut().filter(|(id, _)| !is_read(id)).for_each(|(_, job)| job.load.restart(now, spent));
    }

    /// Accepts a consumer's heartbeat.
    pub(in crate::state) fn consumer_heartbeat(
        &mut self,
        now: Ticks,
        job: u64,
        consumer: u32,
        said: &ConsumerHeartbeat,
    ) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.load.add(consumer, said);
            job.reports.add(now, consumer, said);
        }
    }

    /// Accepts the time that a worker spent on a job.
    pub(in crate::state) fn spend(&mut self, reporter: Reporter, spent: &Spent) {
        let Some(job) = self.jobs.get_mut(&spent.job) else { return };
        match reporter {
            Reporter::Fleet => {
                job.load.spend(spent);
                self.spent_us = self.spent_us.saturating_add(spent.compute_us);
            }
            // A local thread yields to the trainer, so its time says nothing about the fleet's workers.
            Reporter::Local(consumer) => job.load.spend_local(consumer, spent),
        }
    }

    /// Accepts the bytes that a worker sent to a job's consumers over a network.
    pub(in crate::state) fn send(&mut self, sent: &Sent) {
        if let Some(job) = self.jobs.get_mut(&sent.job) {
            job.load.send(sent);
        }
    }

    /// Accepts a worker's report of its cache for a job.
    pub(in crate::state) fn note_caching(&mut self, worker: WorkerId, job: u64, json: &str) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.caching.note(worker, json);
        }
    }

    /// Accepts the costs of a job's ops.
    pub(in crate::state) fn note_op_costs(&mut self, now: Ticks, record: &JobRecord, at: At, said: &[OpSpent]) {
        if let Some(job) = self.jobs.get_mut(&record.id) {
            job.op_costs.take(now, at, said);
            self.profiles.add_ops(now, record, at, said);
        }
    }

    /// Notes which workers compute for a job, and ends its window if it has lasted long enough: see [`JobLoad::end`].
    pub(in crate::state) fn observe(
        &mut self,
        now: Ticks,
        job: &JobRecord,
        workforce: Workforce,
        workers: u32,
        (limits, objective): (Limits, Objective),
        costs: impl FnOnce(&[&OpCosts]) -> BoundaryCosts,
    ) -> Option<Observation> {
        let measured = self.jobs.get_mut(&job.id)?;
        measured.load.note_workforce(workforce);
        let shown: Vec<_> = std::iter::once(&measured.op_costs).chain(self.profiles.ops(job)).collect();
        measured.load.end(now, self.spent_us, workers, limits, objective, || costs(&shown))
    }

    /// The placement boundary of a job moved.
    pub(in crate::state) fn note_boundary_moved(&mut self, job: u64) {
        self.jobs.get_mut(&job).into_iter().for_each(|job| job.load.note_boundary_moved());
    }

    /// Notes the results of a decision on a job: whether it is steady, and how many batches its trainers demand a
    /// second.
    pub(in crate::state) fn note_decision(
        &mut self,
        now: Ticks,
        job: &JobRecord,
        objective: &Objective,
        steady: Option<SteadyState>,
        demand: Option<f64>,
    ) {
        if let Some(state) = steady {
            self.profiles.note_steady_state(now, job, objective, state);
        }
        if let Some((demand, rows)) = demand.zip(self.jobs.get(&job.id).and_then(|job| job.load.batch_rows())) {
            self.profiles.note_step(now, job, f64::from(job.consumers) / (demand * rows));
        }
    }

    /// Returns the op costs of a job and, where they lack figures, of earlier jobs on its dataset, in this order.
    pub(in crate::state) fn shown_op_costs(&self, job: &JobRecord) -> Vec<&OpCosts> {
        let own = self.jobs.get(&job.id).map(|job| &job.op_costs);
        own.into_iter().chain(self.profiles.ops(job)).collect()
    }

    /// Lists the op costs of a job. If it reported nothing since this process began, lists those of earlier jobs on its
    /// dataset.
    pub(in crate::state) fn ops(&self, job: &JobRecord) -> Vec<OpStatus> {
        let Some(own) = self.jobs.get(&job.id).map(|job| &job.op_costs) else { return Vec::new() };
        match (own.is_empty(), self.profiles.ops(job)) {
            (true, Some(known)) => known.list(&job.graph, true),
            _ => own.list(&job.graph, false),
        }
    }

    /// Fills in the sums of the reports of a job's consumers.
    pub(in crate::state) fn describe_consumers(&self, now: Ticks, job: u64, consumers: &mut [ConsumerStatus]) {
        if let Some(job) = self.jobs.get(&job) {
            consumers.iter_mut().for_each(|consumer| job.reports.describe(now, consumer));
        }
    }

    /// Returns the workers' cache reports for a job.
    pub(in crate::state) fn caching(&self, job: u64) -> Vec<WorkerCaching> {
        self.jobs.get(&job).map(|job| job.caching.status()).unwrap_or_default()
    }
}
