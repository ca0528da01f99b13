//! The owners of jobs, tenants' quotas, and the workers that may compute for a consumer.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::{Error, ErrorKind, Result, WorkerId};

use crate::records::{ConsumerKey, JobRecord};
use crate::state::effect::Effect;
use crate::state::leases::consumers::messages::no_job;
use crate::state::leases::job::Job;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;
use crate::tenant::{Quota, Tenant, check_quota, check_room};

/// The most bytes that the pipelines of one tenant's jobs take in the ledger.
const PIPELINE_BYTES_MAX: usize = 256 << 20;

/// The workers that may get splits of a consumer: its own local worker, regardless of its tenant's quota, and the
/// workers of its tenant or of all tenants, except where the job is held up and holds its share.
pub(in crate::state::leases) struct EligibleWorkers<'a> {
    state: &'a Leases,
    key: ConsumerKey,
    tenant: &'a str,
    /// The only workers that the tenant may use, if its quota is used up.
    only: Option<BTreeSet<WorkerId>>,
}

impl EligibleWorkers<'_> {
    pub(in crate::state::leases) fn has(&self, id: WorkerId, worker: &Worker) -> bool {
        self.may_use(id, worker) && !self.state.fills(self.tenant, self.key, worker)
    }

    /// Returns whether a worker may get splits of the consumer now, or once the job no longer holds its share there.
    pub(in crate::state::leases) fn may_use(&self, id: WorkerId, worker: &Worker) -> bool {
        let within = || match worker.only {
            Some(_) => self.state.is_started_by_its_consumer(worker),
            None => self.only.as_ref().is_none_or(|only| only.contains(&id)),
        };
        worker.computes_for(self.tenant, self.key) && within()
    }

    /// Returns whether there is a worker besides the consumer's local one.
    pub(in crate::state::leases) fn has_others(&self, workers: &BTreeMap<WorkerId, Worker>) -> bool {
        workers.iter().any(|(id, w)| !w.is_local() && w.is_live() && self.has(*id, w))
    }
}

impl Leases {
    /// Refuses another tenant's job as if it did not exist.
    ///
    /// # Errors
    /// NotFound.
    pub(in crate::state::leases) fn check_owner(&self, tenant: &Tenant, job: u64) -> Result<(), Error> {
        let owned = self.jobs.get(&job).is_some_and(|j| j.record.tenant == *tenant.name);
        if owned { Ok(()) } else { Err(no_job(job)) }
    }

    /// Checks the quota for one more job.
    ///
    /// # Errors
    /// Exhausted.
    pub(in crate::state::leases) fn check_jobs(&self, record: &JobRecord, quota: Quota) -> Result<()> {
        let tenant = &record.tenant;
        let going_on = || self.of_tenant(tenant).filter(|j| !j.record.cancelled && !j.is_finished());
        if quota.jobs.is_some() {
            check_quota(tenant, "unfinished jobs", going_on().count(), quota.jobs)?;
        }
        if let Some(may) = quota.job_consumers {
            let has: u64 = going_on().map(|j| u64::from(j.record.consumers)).sum();
            check_room(tenant, "consumers of unfinished jobs", has, record.consumers.into(), may.into())?;
        }
        Ok(())
    }

    /// Makes room in the ledger for the pipeline of a new job: forgets the tenant's jobs that are over, the oldest
    /// first.
    ///
    /// # Errors
    /// Exhausted when the other jobs leave no room; then no job is forgotten.
    pub(in crate::state::leases) fn make_room(&mut self, record: &JobRecord, out: &mut Vec<Effect>) -> Result<()> {
        let others = self.of_tenant(&record.tenant).filter(|job| job.record.name != record.name);
        let (over, going_on): (Vec<_>, Vec<_>) = others.partition(|job| job.is_over() && job.unread_since().is_some());
        let bytes = |jobs: &[&Job]| jobs.iter().map(|job| job.record.graph.len()).sum::<usize>();
        let (has, mut all) =
            (bytes(&going_on) + record.graph.len(), bytes(&going_on) + bytes(&over) + record.graph.len());
        if has > PIPELINE_BYTES_MAX {
            let message = format!("the pipelines of a tenant's jobs would take {has} bytes");
            let hint = "cancel jobs that are not needed, or name files by a pattern instead of one by one";
            return Err(Error::new(ErrorKind::Exhausted, message).with("limit", PIPELINE_BYTES_MAX).hint(hint));
        }
        let mut leave = Vec::new();
        let mut oldest: Vec<_> = over.iter().map(|job| (job.record.id, job.record.graph.len())).collect();
        oldest.sort_unstable();
        for (id, bytes) in oldest {
            if all <= PIPELINE_BYTES_MAX {
                break;
            }
            all -= bytes;
            leave.push(id);
        }
        leave.into_iter().for_each(|id| self.remove_job(id, out));
        Ok(())
    }

    /// Checks the quota for one more attached consumer. A process that takes over an attached consumer needs none.
    ///
    /// # Errors
    /// Exhausted.
    pub(in crate::state::leases) fn check_attached_quota(&self, tenant: &Tenant, key: ConsumerKey) -> Result<()> {
        let may = tenant.quota.consumers;
        if may.is_none() || self.consumer(key).is_some_and(|c| c.attached.is_some()) {
            return Ok(());
        }
        let attached = self.of_tenant(&tenant.name).flat_map(|j| &j.consumers).filter(|c| c.attached.is_some());
        check_quota(&tenant.name, "consumers that are attached", attached.count(), may)
    }

    /// Returns the workers that may compute for a consumer.
    pub(in crate::state::leases) fn eligible_workers(&self, key: ConsumerKey) -> EligibleWorkers<'_> {
        let tenant = self.jobs.get(&key.0).map_or("", |j| &j.record.tenant);
        let may = self.consumer(key).and_then(|c| c.attached?.workers_max);
        let only = may.and_then(|may| {
            let is_live = |id: &WorkerId| self.workers.get(id).is_some_and(|w| w.is_of_fleet());
            let consumers = self.of_tenant(tenant).flat_map(|j| &j.consumers);
            let holders = consumers.flat_map(|c| c.leases().values().chain(c.backups().values()));
            let at_it: BTreeSet<_> = holders.map(|h| h.worker).filter(is_live).collect();
            (at_it.len() >= may as usize).then_some(at_it)
        });
        EligibleWorkers { state: self, key, tenant, only }
    }

    /// Returns whether a worker besides its local one may compute for a consumer.
    pub(in crate::state) fn has_fleet_workers(&self, key: ConsumerKey) -> bool {
        self.eligible_workers(key).has_others(&self.workers)
    }

    /// Returns whether a worker may hold leases of a consumer.
    pub(in crate::state::leases) fn may_hold(&self, id: WorkerId, key: ConsumerKey) -> bool {
        let (worker, job) = (self.workers.get(&id), self.jobs.get(&key.0));
        worker.zip(job).is_some_and(|(worker, job)| worker.computes_for(&job.record.tenant, key))
    }

    fn of_tenant<'a>(&'a self, tenant: &'a str) -> impl Iterator<Item = &'a Job> {
        self.jobs.values().filter(move |j| j.record.tenant == tenant)
    }
}
