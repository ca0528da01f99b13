//! The leases machine: its fields, and the parts that the other machines may read.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use forebay_core::{Ticks, WorkerId};

use crate::options::{Retention, Timing};
use crate::records::{ConsumerKey, JobRecord, Position, SplitKey, Update};
use crate::state::counts::Counts;
use crate::state::effect::Effect;
use crate::state::input::SessionId;
use crate::state::leases::consumers::consumer::{Consumer, Holder};
use crate::state::leases::events::revoke_event;
use crate::state::leases::grants::hints::affinity::CacheAffinity;
use crate::state::leases::grants::hints::sharing::SharingGroups;
use crate::state::leases::grants::hints::{GrantHint, HintEvent};
use crate::state::leases::job::Job;
use crate::state::leases::notice::Notice;
use crate::state::leases::views::{JobView, Reporter, WorkerView};
use crate::state::leases::workers::worker::Worker;

/// Jobs, consumers, workers and leases: everything that is durable but dataset profiles.
#[derive(Debug)]
pub(in crate::state) struct Leases {
    pub(in crate::state::leases) timing: Timing,
    pub(in crate::state::leases) retention: Retention,
    pub(in crate::state::leases) jobs: BTreeMap<u64, Job>,
    /// By tenant and name.
    pub(in crate::state::leases) names: HashMap<(String, String), u64>,
    pub(in crate::state::leases) workers: BTreeMap<WorkerId, Worker>,
    pub(in crate::state::leases) consumer_sessions: HashMap<SessionId, ConsumerKey>,
    pub(in crate::state::leases) worker_sessions: HashMap<SessionId, WorkerId>,
    /// Consumers with a session, leases or trouble. The others cost nothing (see `active`).
    pub(in crate::state::leases) active: BTreeSet<ConsumerKey>,
    pub(in crate::state::leases) next_token: u64,
    pub(in crate::state::leases) next_job: u64,
    /// Names the workers whose caches have rows of a split. No invariant depends on the hint.
    pub(in crate::state::leases) affinity: Box<dyn GrantHint>,
    /// Names the workers that compute a split for another job. No invariant depends on the hint.
    pub(in crate::state::leases) sharing: Box<dyn GrantHint>,
    pub(in crate::state::leases) clock: Clock,
    /// Whether a worker has come that got nothing yet.
    pub(in crate::state::leases) has_newcomer: bool,
    /// Whether anything happened since the last grants that may allow more grants.
    pub(in crate::state::leases) changed: bool,
    pub(in crate::state::leases) counts: Counts,
    pub(in crate::state::leases) notices: Vec<Notice>,
}

/// The time of the last check of leases.
#[derive(Debug)]
pub(in crate::state::leases) struct Clock {
    pub(in crate::state::leases) ticked: Ticks,
    /// The time of the last search for late splits.
    pub(in crate::state::leases) speculated: Ticks,
    /// When a newcomer last took splits of others.
    pub(in crate::state::leases) newcomer_rebalanced: Ticks,
    /// From when places at full workers may be searched again for consumers that have none.
    pub(in crate::state::leases) make_way_due: Ticks,
    /// When the first lease of a worker ends: before, the dispatcher need not look for silent workers.
    pub(in crate::state::leases) expiry: Ticks,
}

impl Leases {
    /// Returns the machine without jobs and workers.
    pub(in crate::state::leases) fn new(timing: Timing, now: Ticks) -> Self {
        Self {
            timing,
            retention: Retention::default(),
            jobs: BTreeMap::new(),
            names: HashMap::new(),
            workers: BTreeMap::new(),
            consumer_sessions: HashMap::new(),
            worker_sessions: HashMap::new(),
            active: BTreeSet::new(),
            // 0 means "no token" in a message.
            next_token: 1,
            next_job: 1,
            affinity: Box::new(CacheAffinity::default()),
            sharing: Box::new(SharingGroups::default()),
            clock: Clock { ticked: now, speculated: now, newcomer_rebalanced: now, make_way_due: now, expiry: now },
            has_newcomer: false,
            changed: true,
            counts: Counts::default(),
            notices: Vec::new(),
        }
    }

    /// Something happened that may allow more grants.
    pub(in crate::state) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Takes the notices for the other machines.
    pub(in crate::state) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(in crate::state) fn counts(&self) -> Counts {
        self.counts
    }

    /// Sets how many row ops workers run of a job's splits from the next lease on; `None` if there is no choice.
    pub(in crate::state) fn set_boundary(&mut self, job: u64, ops_on_worker: Option<u32>) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.boundary = ops_on_worker;
        }
    }

    /// Returns the record of a job.
    pub(in crate::state) fn record(&self, job: u64) -> Option<&Arc<JobRecord>> {
        self.jobs.get(&job).map(|job| &job.record)
    }

    pub(in crate::state) fn job_view(&self, job: u64) -> Option<JobView<'_>> {
        self.jobs.get(&job).map(Job::view)
    }

    /// Returns the jobs that are read, by number.
    pub(in crate::state) fn read_jobs(&self) -> Vec<JobView<'_>> {
        self.jobs.values().filter(|job| job.is_read()).map(Job::view).collect()
    }

    /// Returns the jobs that are read, or were read a moment ago.
    pub(in crate::state) fn going_on(&self, now: Ticks) -> impl Iterator<Item = u64> {
        let timeout = self.timing.consumer_timeout;
        let is_going_on = move |job: &Job| {
            let lately = |c: &Consumer| c.attached.is_some() || now - c.gone < timeout;
            !job.record.cancelled && !job.is_finished() && job.consumers.iter().any(lately)
        };
        self.jobs.iter().filter(move |(_, job)| is_going_on(job)).map(|(id, _)| *id)
    }

    /// Returns all workers, by id.
    pub(in crate::state) fn workers(&self) -> impl Iterator<Item = WorkerView<'_>> {
        self.workers.iter().map(|(id, worker)| worker.view(*id))
    }

    /// Returns the connected workers that are not local.
    pub(in crate::state) fn fleet_workers(&self) -> impl Iterator<Item = WorkerView<'_>> {
        self.workers().filter(|worker| worker.is_live && !worker.is_local())
    }

    /// Returns the worker of a session that is still open.
    pub(in crate::state) fn worker_of(&self, session: SessionId) -> Option<WorkerView<'_>> {
        let id = self.worker_sessions.get(&session)?;
        Some(self.workers.get(id)?.view(*id))
    }

    pub(in crate::state) fn worker(&self, id: WorkerId) -> Option<WorkerView<'_>> {
        Some(self.workers.get(&id)?.view(id))
    }

    /// Returns a job on which a worker reports, with the worker's role in it. `None` if it may not compute for the job,
    /// so that reports on other tenants' jobs and by other consumers' local workers are ignored.
    pub(in crate::state) fn reported(&self, worker: &WorkerView<'_>, job: u64) -> Option<(&Arc<JobRecord>, Reporter)> {
        let record = self.record(job).filter(|record| worker.serves(&record.tenant))?;
        match worker.only {
            None => Some((record, Reporter::Fleet)),
            Some((own, consumer)) if own == job => Some((record, Reporter::Local(consumer))),
            Some(_) => None,
        }
    }

    pub(in crate::state::leases) fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.jobs.get(&key.0)?.consumers.get(key.1 as usize)
    }

    pub(in crate::state::leases) fn consumer_mut(&mut self, key: ConsumerKey) -> Option<&mut Consumer> {
        self.jobs.get_mut(&key.0)?.consumers.get_mut(key.1 as usize)
    }

    pub(in crate::state::leases) fn consumers(&self) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.jobs.iter().flat_map(|(id, job)| (0..).zip(&job.consumers).map(|(i, consumer)| ((*id, i), consumer)))
    }

    /// Passes an event to the hints.
    pub(in crate::state::leases) fn hint(&mut self, event: &HintEvent<'_>) {
        self.affinity.note(event);
        self.sharing.note(event);
    }

    /// Releases a lease that the consumer has already dropped, and revokes it at its worker.
    pub(in crate::state::leases) fn revoke(&mut self, key: SplitKey, holder: Holder, out: &mut Vec<Effect>) {
        out.push(Effect::Remember(Update::Released(key)));
        self.revoke_from_worker(holder, out);
    }

    pub(in crate::state::leases) fn revoke_all(
        &mut self,
        key: ConsumerKey,
        dropped: Vec<(Position, Holder)>,
        out: &mut Vec<Effect>,
    ) {
        for (position, holder) in dropped {
            self.revoke((key, position), holder, out);
        }
    }

    /// Revokes a lease at its worker.
    pub(in crate::state::leases) fn revoke_from_worker(&mut self, holder: Holder, out: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(&holder.worker) else { return };
        worker.leases.remove(&holder.token);
        if let Some(session) = worker.session {
            out.push(Effect::Worker(session, revoke_event(holder.token)));
        }
    }
}
