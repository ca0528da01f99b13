//! What people see of the state, and the checks of its invariants: for production, tests and the simulation.

use std::collections::BTreeSet;

use forebay_core::{Error, Result, Ticks, WorkerId};
use forebay_proto::{ConsumerStatus, JobStatus, WorkerStatus};

use super::leases::consumer::Trouble;
use super::{Job, State};
use crate::records::{ConsumerKey, Grant, Ledger, Position, SplitKey};

/// The states of a job.
pub(super) const JOB_STATES: [&str; 5] = ["running", "waiting for workers", "no consumer", "finished", "cancelled"];

/// Beyond this many leases the check is skipped: it would take longer than a peer should wait.
const CHECKED_MAX: usize = 4096;

impl State {
    /// Lists the jobs of a tenant, or of all tenants, the oldest first. For one name all decisions are listed, for all
    /// names only the last few. Keys are shown only to their tenant.
    pub(crate) fn list_jobs(&self, now: Ticks, tenant: Option<&str>, name: &str) -> Vec<JobStatus> {
        let named = |j: &&Job| name.is_empty() || j.record.name == name;
        let seen = |j: &&Job| tenant.is_none_or(|tenant| j.record.tenant == tenant);
        let local = self.local_threads();
        let status = |job: &Job| JobStatus {
            local_threads: (0..job.consumers.len() as u32).filter_map(|i| local.get(&(job.record.id, i))).sum(),
            workers: job.scale.wanted().unwrap_or(0),
            decisions: job.scale.decisions(now, !name.is_empty()),
            ops: if name.is_empty() { Vec::new() } else { self.ops(job) },
            cut: job.placement.describe(&self.boundary_costs(job)),
            ..self.job_status(job, tenant.is_some())
        };
        self.jobs.values().filter(seen).filter(named).map(status).collect()
    }

    /// Returns the state of a job: one of [`JOB_STATES`].
    pub(super) fn job_state(&self, job: &Job) -> &'static str {
        let tenant = &job.record.tenant;
        let for_some =
            |w: &super::Worker| (0..job.consumers.len() as u32).any(|i| w.computes_for(tenant, (job.record.id, i)));
        let [running, waiting, unread, finished, cancelled] = JOB_STATES;
        match job {
            _ if job.record.cancelled => cancelled,
            _ if job.is_finished() => finished,
            _ if !job.consumers.iter().any(|c| c.attached.is_some()) => unread,
            _ if !self.workers.values().any(|w| w.session.is_some() && for_some(w)) => waiting,
            _ => running,
        }
    }

    fn job_status(&self, job: &Job, with_key: bool) -> JobStatus {
        let consumer = |(i, c): (usize, &super::Consumer)| ConsumerStatus {
            consumer: i as u32,
            attached: c.attached.is_some(),
            epoch: c.frontier().epoch,
            ordinal: c.frontier().ordinal,
            splits: c.splits().unwrap_or(0),
            leased: c.leases().len() as u32,
            skipped: c.skipped().len() as u64,
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
            workers: 0,
            decisions: Vec::new(),
            caching: job.caching(),
            local_threads: 0,
            priority: job.record.priority,
            ops: Vec::new(),
            cut: String::new(),
            worked: job.cost.status(),
        }
    }

    /// Lists the workers that compute for a tenant, or all. Of a worker that others use too, a tenant does not see
    /// their share.
    pub(crate) fn list_workers(&self, now: Ticks, tenant: Option<&str>) -> Vec<WorkerStatus> {
        let is_own =
            |key: &SplitKey| tenant.is_none_or(|t| self.jobs.get(&key.0.0).is_some_and(|j| j.record.tenant == t));
        let leases = |w: &super::Worker| w.leases.values().filter(|key| is_own(key)).count();
        let done = |w: &super::Worker, done: u64| (tenant.is_none() || w.serves.is_some()).then_some(done);
        let status = |(id, w): (&WorkerId, &super::Worker)| WorkerStatus {
            worker: format!("{:032x}", id.0),
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
            kind: w.worker_type.name().to_owned(),
            price: w.worker_type.price(),
            spot: w.worker_type.is_spot(),
        };
        let seen = |w: &super::Worker| tenant.is_none_or(|tenant| w.serves(tenant));
        self.workers.iter().filter(|(_, w)| seen(w)).map(status).collect()
    }

    /// Checks the invariants of the module's documentation, if at most [`CHECKED_MAX`] splits are leased.
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        let held: usize = self.workers.values().map(|w| w.leases.len()).sum();
        if held > CHECKED_MAX {
            return Ok(());
        }
        let unnoticed = self.workers.values().find(|w| w.expiry(self.timing.lease) < self.expiry);
        ensure(unnoticed.is_none(), || {
            format!("SP-8: a worker at {:?} is lost and nobody looks", unnoticed.map(|w| &w.address))
        })?;
        let mut tokens = BTreeSet::new();
        for (key, consumer) in self.active_consumers() {
            let backups = consumer.backups().iter();
            for (position, second) in backups.clone() {
                let first = consumer.leases().get(position);
                ensure(first.is_some_and(|first| first.worker != second.worker), || {
                    format!("SP-1: split {position} of {key:?} is raced by one worker alone")
                })?;
            }
            for (position, holder) in consumer.leases().iter().chain(backups) {
                let token = holder.token;
                ensure(tokens.insert(token), || format!("SP-1: token {token} is current twice"))?;
                let known = self.workers.get(&holder.worker).and_then(|w| w.leases.get(&token));
                ensure(known == Some(&(key, *position)), || {
                    format!(
                        "SP-1: split {position} of {key:?} is held under token {token}, which its worker does not know"
                    )
                })?;
                ensure(token < self.next_token, || format!("SP-2: token {token} comes after {}", self.next_token))?;
                let frontier = consumer.frontier();
                ensure(*position >= frontier, || {
                    format!("SP-3: {position} is leased, and {frontier} is the frontier")
                })?;
                let inside = consumer.attached.is_none_or(|r| consumer.distance(*position) < u128::from(r.window));
                ensure(inside, || format!("SP-4: {position} is leased beyond the window from {frontier}"))?;
            }
        }
        ensure(held == tokens.len(), || "SP-1: a worker holds what no consumer leased".to_owned())?;
        let strays = |(id, w): (&WorkerId, &super::Worker)| {
            // A worker that did not say hello since a restart has not reported whom it serves.
            w.session.and_then(|_| w.leases.values().find(|key| !self.may_hold(*id, key.0)).copied())
        };
        let stray = self.workers.iter().find_map(strays);
        ensure(stray.is_none(), || format!("SP-9: {stray:?} is held by another tenant's or another reader's worker"))
    }

    /// Checks SP-10, and SP-5 except for splits that wait for another worker. While there is a suspect, SP-5 is not
    /// checked: the suspect waits for a worker without other work, and that worker for it.
    ///
    /// # Errors
    /// Internal, naming a split that could be granted.
    pub(crate) fn check_progress(&self) -> Result<()> {
        let unattended = self.consumers().find(|(key, consumer)| !consumer.is_inactive() && !self.active.contains(key));
        ensure(unattended.is_none(), || format!("SP-10: nobody looks at {:?}", unattended.map(|(key, _)| key)))?;
        let suspects = || self.consumers().any(|(_, c)| c.trouble.values().any(Trouble::is_suspect));
        if suspects() {
            return Ok(());
        }
        for (key, consumer) in self.consumers().filter(|(_, c)| !c.waits_for_others(self.ticked)) {
            let eligible = self.eligible_workers(key);
            if !self.workers.iter().any(|(id, w)| w.has_room() && eligible.has(*id, w)) {
                continue;
            }
            // A split that may end workers, or that failed, waits for another worker.
            let untroubled = |t: &Trouble| t.avoid.is_none() && t.deaths.is_empty();
            let waiting = consumer.free().find(|p| consumer.trouble.get(p).is_none_or(untroubled));
            ensure(waiting.is_none(), || format!("SP-5: {waiting:?} of {key:?} waits, and a worker has room"))?;
        }
        Ok(())
    }

    /// Checks SP-6, once everything is written: the ledger holds this state. A frontier at the start may be unwritten,
    /// and tokens that nobody was told of may be used again.
    ///
    /// # Errors
    /// Internal, with both.
    pub(crate) fn check_written(&self, written: &Ledger) -> Result<()> {
        let ours = self.ledger();
        let moved = || written.frontiers.iter().filter(|(_, p)| **p != Position::default());
        let same = ours.jobs == written.jobs
            && ours.grants == written.grants
            && ours.skipped == written.skipped
            && ours.profiles == written.profiles
            && ours.frontiers.iter().eq(moved());
        ensure(same && ours.next_token >= written.next_token, || format!("SP-6: {ours:?} was written as {written:?}"))
    }

    /// Returns the ledger that this state should have written.
    pub(crate) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { next_token: self.next_token, next_job: self.next_job, ..Ledger::default() };
        ledger.profiles = self.profiles.written().collect();
        ledger.jobs = self.jobs.iter().map(|(id, job)| (*id, job.record.clone())).collect();
        for (key, consumer) in self.consumers() {
            if consumer.frontier() != Position::default() {
                ledger.frontiers.insert(key, consumer.frontier());
            }
            let skipped = consumer.skipped().iter();
            ledger.skipped.extend(skipped.map(|((p, sample, time), error)| ((key, *p, *sample, *time), error.clone())));
            for (position, holder) in consumer.leases() {
                let address = self.workers.get(&holder.worker).map(|w| w.address.clone()).unwrap_or_default();
                let grant = Grant { token: holder.token, worker: holder.worker, address };
                ledger.grants.insert((key, *position), grant);
            }
        }
        ledger
    }

    pub(super) fn consumers(&self) -> impl Iterator<Item = (ConsumerKey, &super::Consumer)> {
        self.jobs.iter().flat_map(|(id, job)| (0..).zip(&job.consumers).map(|(i, consumer)| ((*id, i), consumer)))
    }
}

/// Returns the state of a worker that holds so many leases.
pub(super) fn worker_state(worker: &super::Worker, leases: usize) -> &'static str {
    match worker {
        _ if worker.session.is_none() => "lost",
        _ if worker.leaving => "leaving",
        _ if worker.slow => "slow",
        _ if leases == 0 => "idle",
        _ => "working",
    }
}

/// Returns an error if an invariant does not hold.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::internal(what())) }
}
