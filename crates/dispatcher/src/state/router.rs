//! The state: four machines, and the machine for each input.

use std::sync::Arc;

use forebay_core::{Result, Ticks};
use forebay_policy::fleet::Offer;
use forebay_proto::{WorkerHeartbeatReply, worker_event};

use super::effect::Effect;
use super::fleet::machine::Fleet;
use super::input::{Arrival, Attachment, Input};
use super::leases::machine::Leases;
use super::leases::notice::Notice;
use super::load::dataset_profile::ProfileChange;
use super::load::machine::Load;
use super::lost_workers::LostWorkers;
use super::scaling::machine::Scaling;
use crate::options::{self, Retention, Timing};
use crate::records::{JobRecord, Ledger, Update};
use crate::tenant::Quota;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct State {
    pub(in crate::state) leases: Leases,
    pub(in crate::state) load: Load,
    pub(in crate::state) scaling: Scaling,
    pub(in crate::state) fleet: Fleet,
    pub(in crate::state) lost: LostWorkers,
    /// When the policies last ran.
    pub(in crate::state) scaled: Ticks,
}

impl State {
    /// Returns the state that a ledger describes, without sessions; `splits` returns how many splits an epoch of each
    /// consumer has. `out` receives corrections of the ledger.
    ///
    /// # Errors
    /// The error of `splits`, with the job's name.
    pub(crate) fn recover(
        timing: Timing,
        now: Ticks,
        ledger: &Ledger,
        splits: impl Fn(&JobRecord) -> Result<Vec<Option<u64>>>,
        out: &mut Vec<Effect>,
    ) -> Result<Self> {
        let leases = Leases::recover(timing, now, ledger, splits, out)?;
        let (load, scaling, fleet) = (Load::recover(ledger), Scaling::default(), Fleet::default());
        let mut state = Self { leases, load, scaling, fleet, lost: LostWorkers::default(), scaled: now };
        ledger.jobs.values().for_each(|record| state.add_job(now, record));
        Ok(state)
    }

    /// Sets the scaling policy. Earlier decisions are forgotten.
    pub(crate) fn set_scaling(&mut self, options: options::Scaling) {
        self.scaling.set_options(options);
    }

    /// Sets which types of workers can be started. Earlier decisions are forgotten.
    pub(crate) fn set_offers(&mut self, offers: Arc<[Offer]>) {
        self.fleet.set_offers(offers);
    }

    /// Sets how many jobs that are over are kept, and how long.
    pub(crate) fn set_retention(&mut self, retention: Retention) {
        self.leases.set_retention(retention);
    }

    /// Makes workers require a key from each other that is derived from this secret, a different one for each tenant.
    pub(crate) fn set_secret(&mut self, secret: [u8; 16]) {
        self.fleet.set_secret(secret);
    }

    /// Advances the next job number, so that no job gets a number which another copy of the ledger gave out.
    pub(crate) fn pass_job_numbers(&mut self, by: u32) {
        self.leases.pass_job_numbers(by);
    }

    /// Accepts one input. Grants nothing: see [`State::schedule`].
    pub(crate) fn handle(&mut self, now: Ticks, input: Input, out: &mut Vec<Effect>) {
        if !matches!(input, Input::WorkerHeartbeat { .. } | Input::ConsumerHeartbeat { .. } | Input::Steps { .. }) {
            self.leases.note_change();
        }
        let leases = &mut self.leases;
        match input {
            Input::Attach(attachment) => self.attach(now, &attachment, out),
            Input::Ack { session, position } => leases.ack(now, session, position, out),
            Input::Unreachable { session, position, token, error } => {
                leases.unreachable(now, session, position, token, &error, out);
            }
            Input::Skipped { session, number, samples } => leases.take_skipped(now, session, number, &samples, out),
            Input::Steps { session, said } => leases.steps(now, session, &said, out),
            Input::EndEpoch { session, epoch } => leases.end_epoch(now, session, epoch, out),
            Input::ConsumerHeartbeat { session, said } => self.consumer_heartbeat(now, session, &said, out),
            Input::ConsumerGone { session } => leases.consumer_gone(now, session),
            Input::Hello(arrival) => self.hello(now, arrival, out),
            Input::Threads { session, threads } => leases.set_threads(now, session, threads, out),
            Input::Want { session, splits } => leases.want(now, session, splits),
            Input::WorkerHeartbeat { session, said } => self.worker_heartbeat(now, session, &said, out),
            Input::Leaving { session } => leases.leaving(now, session),
            Input::WorkerGone { session } => leases.worker_gone(now, session, out),
            Input::Tick => self.tick(now, out),
        }
        self.route(now, out);
    }

    /// Grants splits until workers or consumers have no more room.
    pub(crate) fn schedule(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        self.leases.schedule(now, out);
        self.route(now, out);
    }

    /// Returns a tenant's job by name. The name of a cancelled job is free.
    pub(crate) fn job(&self, tenant: &str, name: &str) -> Option<&Arc<JobRecord>> {
        self.leases.job(tenant, name)
    }

    /// Returns the records of all jobs.
    pub(crate) fn records(&self) -> Vec<Arc<JobRecord>> {
        self.leases.records()
    }

    /// Creates a job with `splits` for an epoch of each consumer, and gives it its number. The job must be within its
    /// tenant's quota.
    ///
    /// # Errors
    /// Conflict when the name is taken; Exhausted when the quota is used up.
    pub(crate) fn create(
        &mut self,
        now: Ticks,
        record: JobRecord,
        splits: &[Option<u64>],
        quota: Quota,
        out: &mut Vec<Effect>,
    ) -> Result<Arc<JobRecord>> {
        let read_before = self.load.profiles().epochs_read(&record);
        let created = self.leases.create(now, record, splits, quota, read_before, out);
        self.route(now, out);
        let record = created?;
        self.add_job(now, &record);
        self.warm_start(now, record.id);
        Ok(record)
    }

    /// Cancels a job permanently.
    ///
    /// # Errors
    /// NotFound when there is no job of that name; Closed when it was cancelled before.
    pub(crate) fn cancel(&mut self, now: Ticks, tenant: &str, name: &str, out: &mut Vec<Effect>) -> Result<()> {
        let cancelled = self.leases.cancel(now, tenant, name, out);
        self.route(now, out);
        cancelled
    }

    /// Removes a job that is over.
    ///
    /// # Errors
    /// NotFound when there is no job of that name; Conflict while the job is not over, or is read.
    pub(crate) fn forget_job(&mut self, now: Ticks, tenant: &str, name: &str, out: &mut Vec<Effect>) -> Result<()> {
        let forgotten = self.leases.forget_job(tenant, name, out);
        self.route(now, out);
        forgotten
    }

    /// Writes all changed profiles when this process stops.
    pub(crate) fn write_profiles(&mut self, out: &mut Vec<Effect>) {
        self.load.profiles_mut().write_all();
        self.write_changes(out);
    }

    fn add_job(&mut self, now: Ticks, record: &JobRecord) {
        self.load.add_job(now, record.id);
        self.fleet.add_job(record.id);
        let boundary = self.scaling.add_job(record);
        self.leases.set_boundary(record.id, boundary);
    }

    fn attach(&mut self, now: Ticks, attachment: &Attachment, out: &mut Vec<Effect>) {
        if let Err(error) = self.leases.attach(now, attachment, out) {
            out.push(Effect::End(attachment.session, error));
        }
    }

    /// A worker comes, and is sent its peers.
    fn hello(&mut self, now: Ticks, arrival: Arrival, out: &mut Vec<Effect>) {
        let Arrival { session, .. } = arrival;
        self.leases.hello(now, &arrival, out);
        let Some(worker) = self.leases.worker_of(session) else { return };
        self.lost.remove(worker.id, worker.address);
        self.fleet.hello(now, &worker, arrival.worker_type, arrival.place);
        let peers = self.fleet.peers_update(&worker, |id| self.leases.worker(id));
        let reply = peers.map(|peers| WorkerHeartbeatReply { peers: Some(peers) });
        out.extend(reply.map(|reply| Effect::Worker(session, worker_event::Event::Heartbeat(reply))));
    }

    /// Passes the notices of leases to the other machines, and writes profiles.
    fn route(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        for notice in self.leases.take_notices() {
            match notice {
                Notice::EpochsRead(job, epochs) => self.load.profiles_mut().add_epochs(now, &job, epochs),
                Notice::Attached(key) => {
                    self.scaling.forget_host(key);
                    self.warm_start(now, key.0);
                }
                Notice::ConsumerGone(key, job) => {
                    self.scaling.forget_host(key);
                    self.load.profiles_mut().write_soon(now, &job);
                }
                Notice::WorkerGone(worker, lost) => {
                    if let Some(lost) = lost {
                        self.lost.add(lost, self.fleet.worker_type(worker).clone());
                    }
                    self.load.forget_worker(worker);
                    self.fleet.remove_worker(worker);
                }
                Notice::JobGone(job) => {
                    self.load.remove_job(job);
                    self.scaling.remove_job(job);
                    self.fleet.remove_job(job);
                }
            }
        }
        self.write_changes(out);
    }

    /// Writes changed dataset profiles to the ledger. No message waits for it.
    fn write_changes(&mut self, out: &mut Vec<Effect>) {
        let update = |change| match change {
            ProfileChange::Written(record) => Update::Profile(record),
            ProfileChange::Gone(key) => Update::ProfileGone(key),
        };
        out.extend(self.load.profiles_mut().take_changes().into_iter().map(|change| Effect::Remember(update(change))));
    }
}
