//! Leases for display and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forebay_core::{Ticks, WorkerId};
use forebay_proto::{AvoidedWorker, ConsumerStatus, JobDifference, JobStatus, SplitStatus, WorkerStatus};

use crate::records::{Position, SplitKey};
use crate::state::leases::consumers::consumer::{Consumer, Holder};
use crate::state::leases::job::Job;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

/// The states of a job.
const JOB_STATES: [&str; 5] = ["running", "waiting for workers", "no consumer", "finished", "cancelled"];

/// Splits of a job that are listed.
const SPLITS_LISTED_MAX: usize = 64;
/// The most avoided workers of a job that are listed.
const AVOIDED_LISTED_MAX: usize = 16;
/// The most jobs in the list of jobs that a worker does not compute.
const DIFFERENCES_LISTED_MAX: usize = 16;

/// Leases in figures.
#[derive(Debug)]
pub(in crate::state) struct LeaseFigures {
    pub(in crate::state) jobs: Vec<(&'static str, u64)>,
    pub(in crate::state) consumers_attached: u64,
    pub(in crate::state) longest_wait: Duration,
    pub(in crate::state) splits_leased: u64,
}

impl Leases {
    /// Lists the jobs of a tenant, or of all tenants, the oldest first, with their numbers; only the jobs of one name
    /// if it is not empty. The fields of other machines are empty. Keys are shown only to their tenant.
    pub(in crate::state) fn list_jobs(&self, now: Ticks, tenant: Option<&str>, name: &str) -> Vec<(u64, JobStatus)> {
        let named = |j: &&Job| name.is_empty() || j.record.name == name;
        let seen = |j: &&Job| tenant.is_none_or(|tenant| j.record.tenant == tenant);
        let jobs = self.jobs.values().filter(seen).filter(named);
        let computing = self.computing();
        let status = |job: &Job| JobStatus {
            splits: if name.is_empty() { Vec::new() } else { splits_in_flight(job) },
            avoided: self.avoided_workers(now, job),
            workers_computing: computing.get(&job.record.id).copied().unwrap_or(0),
            ..self.job_status(job, tenant.is_some())
        };
        jobs.map(|job| (job.record.id, status(job))).collect()
    }

    /// Returns how many connected workers hold leases of each job, without local workers.
    fn computing(&self) -> BTreeMap<u64, u32> {
        let mut counts = BTreeMap::new();
        for worker in self.workers.values().filter(|w| w.session.is_some() && !w.is_local()) {
            let jobs: BTreeSet<u64> = worker.leases.values().map(|key| key.0.0).collect();
            jobs.into_iter().for_each(|job| *counts.entry(job).or_default() += 1);
        }
        counts
    }

    /// Returns the state of a job: one of [`JOB_STATES`].
    fn job_state(&self, job: &Job) -> &'static str {
        let tenant = &job.record.tenant;
        let for_some = |w: &Worker| (0..job.consumers.len() as u32).any(|i| w.computes_for(tenant, (job.record.id, i)));
        let [running, waiting, unread, finished, cancelled] = JOB_STATES;
        match job {
            _ if job.record.cancelled => cancelled,
            _ if job.is_finished() => finished,
            _ if !job.is_read() => unread,
            _ if !self.workers.values().any(|w| w.session.is_some() && for_some(w)) => waiting,
            _ => running,
        }
    }

    fn job_status(&self, job: &Job, with_key: bool) -> JobStatus {
        let consumer = |(i, c): (usize, &Consumer)| ConsumerStatus {
            consumer: i as u32,
            attached: c.attached.is_some(),
            epoch: c.frontier().epoch,
            ordinal: c.frontier().ordinal,
            splits: c.splits().unwrap_or(0),
            leased: c.leases().len() as u32,
            skipped: c.skipped().len() as u64,
            ..ConsumerStatus::default()
        };
        JobStatus {
            name: job.record.name.clone(),
            dataset: job.record.dataset.clone(),
            state: self.job_state(job).to_owned(),
            epochs: job.record.epochs,
            consumers: job.consumers.iter().enumerate().map(consumer).collect(),
            seed: job.record.seed,
            tenant: job.record.tenant.clone(),
            key: if with_key { job.record.key.to_vec() } else { Vec::new() },
            raced: job.second_leases,
            priority: job.record.priority,
            ..JobStatus::default()
        }
    }

    /// Returns the workers that the consumers of a job avoid now; [`AVOIDED_LISTED_MAX`] at most.
    fn avoided_workers(&self, now: Ticks, job: &Job) -> Vec<AvoidedWorker> {
        let of = |(i, consumer): (usize, &Consumer)| {
            let avoided = consumer.avoided.at(now).filter_map(|(id, cause)| {
                let address = self.workers.get(&id)?.address.to_string();
                let (worker, cause) = (format!("{:032x}", id.0), cause.to_string());
                Some(AvoidedWorker { consumer: i as u32, worker, address, cause })
            });
            avoided.collect::<Vec<_>>()
        };
        job.consumers.iter().enumerate().flat_map(of).take(AVOIDED_LISTED_MAX).collect()
    }

    /// Lists the workers that compute for a tenant, or all, with their ids. The fields of other machines are empty. Of
    /// a worker that others use too, a tenant does not see their share.
    pub(in crate::state) fn list_workers(&self, now: Ticks, tenant: Option<&str>) -> Vec<(WorkerId, WorkerStatus)> {
        let is_own =
            |key: &SplitKey| tenant.is_none_or(|t| self.jobs.get(&key.0.0).is_some_and(|j| j.record.tenant == t));
        let leases = |w: &Worker| w.leases.values().filter(|key| is_own(key)).count();
        let done = |w: &Worker, done: u64| (tenant.is_none() || w.serves.is_some()).then_some(done);
        let status = |w: &Worker| WorkerStatus {
            address: w.address.to_string(),
            threads: w.threads,
            state: worker_state(w, leases(w)).to_owned(),
            leases: leases(w) as u32,
            splits_done: done(w, w.splits_done),
            rows_done: done(w, w.rows_done),
            rows_shared: done(w, w.rows_shared),
            silent_ms: (now - w.heard).as_millis() as u64,
            local: w.is_local(),
            disk_off: w.disk_off.clone(),
            differs: self.differences(w, tenant),
            lost: if w.session.is_none() { "it may come back".to_owned() } else { String::new() },
            ..WorkerStatus::default()
        };
        let seen = |w: &Worker| tenant.is_none_or(|tenant| w.serves(tenant));
        self.workers.iter().filter(|(_, w)| seen(w)).map(|(id, w)| (*id, status(w))).collect()
    }

    /// Returns the jobs of a tenant, or of all, that a worker does not compute; [`DIFFERENCES_LISTED_MAX`] at most.
    fn differences(&self, worker: &Worker, tenant: Option<&str>) -> Vec<JobDifference> {
        let job =
            |id: &u64| self.jobs.get(id).filter(|job| tenant.is_none_or(|t| job.record.tenant == t) && !job.is_over());
        let listed = worker.differs.iter().filter_map(|(id, difference)| {
            Some(JobDifference { job: job(id)?.record.name.clone(), difference: difference.clone() })
        });
        listed.take(DIFFERENCES_LISTED_MAX).collect()
    }

    /// Returns the state of each worker.
    pub(in crate::state) fn worker_states(&self) -> impl Iterator<Item = (WorkerId, &'static str)> {
        self.workers.iter().map(|(id, worker)| (*id, worker_state(worker, worker.leases.len())))
    }

    /// Returns the figures of this moment.
    pub(in crate::state) fn figures(&self, now: Ticks) -> LeaseFigures {
        let mut by_state: BTreeMap<_, u64> = BTreeMap::new();
        for job in self.jobs.values() {
            *by_state.entry(self.job_state(job)).or_default() += 1;
        }
        let attached = || self.consumers().filter_map(|(_, consumer)| consumer.attached);
        LeaseFigures {
            jobs: JOB_STATES.map(|state| (state, by_state.get(state).copied().unwrap_or(0))).to_vec(),
            consumers_attached: attached().count() as u64,
            longest_wait: attached().filter_map(|attached| Some(now - attached.waits_since?)).max().unwrap_or_default(),
            splits_leased: self.consumers().map(|(_, consumer)| consumer.leases().len() as u64).sum(),
        }
    }
}

/// Returns the splits that workers hold, the first ones of each consumer; [`SPLITS_LISTED_MAX`] at most.
fn splits_in_flight(job: &Job) -> Vec<SplitStatus> {
    let each = SPLITS_LISTED_MAX.div_ceil(job.consumers.len().max(1));
    let of = |(i, consumer): (usize, &Consumer)| {
        let split = |(position, holder): (&Position, &Holder)| SplitStatus {
            consumer: i as u32,
            epoch: position.epoch,
            ordinal: position.ordinal,
            worker: format!("{:032x}", holder.worker.0),
            second: consumer.backups().get(position).map_or_else(String::new, |b| format!("{:032x}", b.worker.0)),
        };
        consumer.leases().iter().take(each).map(split).collect::<Vec<_>>()
    };
    job.consumers.iter().enumerate().flat_map(of).take(SPLITS_LISTED_MAX).collect()
}

/// Returns the state of a worker that holds so many leases.
fn worker_state(worker: &Worker, leases: usize) -> &'static str {
    match worker {
        _ if worker.session.is_none() => "lost",
        _ if worker.leaving => "leaving",
        _ if worker.slow => "slow",
        _ if leases == 0 => "idle",
        _ => "working",
    }
}
