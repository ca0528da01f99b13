//! Creates, finds and cancels jobs.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result, Ticks};

use crate::records::{JobRecord, Position, Update};
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::Consumer;
use crate::state::leases::consumers::messages::cancelled;
use crate::state::leases::durable::Durable;
use crate::state::leases::grants::hints::HintEvent;
use crate::state::leases::job::Job;
use crate::state::leases::machine::Leases;
use crate::tenant::Quota;

impl Leases {
    /// Advances the next job number, so that no job gets a number which another copy of the ledger gave out.
    pub(in crate::state) fn pass_job_numbers(&mut self, by: u32) {
        self.next_job = self.next_job.saturating_add(by.into());
    }

    /// Returns a tenant's job by name. The name of a cancelled job is free.
    pub(in crate::state) fn job(&self, tenant: &str, name: &str) -> Option<&Arc<JobRecord>> {
        let record = &self.jobs.get(self.names.get(&name_key(tenant, name))?)?.record;
        (!record.cancelled).then_some(record)
    }

    /// Returns the records of all jobs.
    pub(in crate::state) fn records(&self) -> Vec<Arc<JobRecord>> {
        self.jobs.values().map(|job| job.record.clone()).collect()
    }

    /// Creates a job with `splits` for an epoch of each consumer, and gives it its number. The job must be within its
    /// tenant's quota. `read_before` is how many epochs of its dataset were read.
    ///
    /// # Errors
    /// Conflict when the name is taken; Exhausted when the quota is used up.
    pub(in crate::state) fn create(
        &mut self,
        now: Ticks,
        mut record: JobRecord,
        splits: &[Option<u64>],
        quota: Quota,
        read_before: u32,
        out: &mut Vec<Effect>,
    ) -> Result<Arc<JobRecord>> {
        if self.job(&record.tenant, &record.name).is_some() {
            return Err(Error::new(ErrorKind::Conflict, format!("there is a job {:?} already", record.name)));
        }
        self.check_jobs(&record, quota)?;
        self.make_room(&record, out)?;
        if let Some(old) = self.names.get(&name_key(&record.tenant, &record.name)).copied() {
            self.remove_job(old, out);
        }
        (record.id, record.read_before) = (self.next_job, read_before);
        let record = Arc::new(record);
        self.add(now, record.clone(), splits);
        out.push(Effect::Persist(Durable::new(Update::Job(record.clone()))));
        Ok(record)
    }

    pub(in crate::state::leases) fn add(&mut self, now: Ticks, record: Arc<JobRecord>, splits: &[Option<u64>]) {
        let consumers = splits.iter().map(|s| Consumer::new(*s, record.epochs, Position::default(), now)).collect();
        self.next_job = self.next_job.max(record.id + 1);
        self.names.insert(name_key(&record.tenant, &record.name), record.id);
        self.hint(&HintEvent::JobAdded(&record));
        let (id, job) = (record.id, Job::new(record, consumers));
        self.workers.values_mut().for_each(|worker| worker.compare(&job));
        self.jobs.insert(id, job);
    }

    /// Returns the number of a tenant's job by name, cancelled or not.
    pub(in crate::state) fn number(&self, tenant: &str, name: &str) -> Option<u64> {
        self.names.get(&name_key(tenant, name)).copied()
    }

    /// Cancels a job permanently.
    ///
    /// # Errors
    /// NotFound when there is no job of that name; Closed when it was cancelled before.
    pub(in crate::state) fn cancel(
        &mut self,
        now: Ticks,
        tenant: &str,
        name: &str,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        self.changed = true;
        let id = *self.names.get(&name_key(tenant, name)).ok_or_else(|| no_job_named(name))?;
        let job = self.jobs.get_mut(&id).ok_or_else(|| no_job_named(name))?;
        if job.record.cancelled {
            return Err(cancelled(name));
        }
        job.record = Arc::new(JobRecord { cancelled: true, ..(*job.record).clone() });
        out.push(Effect::Persist(Durable::new(Update::Job(job.record.clone()))));
        for index in 0..job.consumers.len() as u32 {
            let key = (id, index);
            self.end_consumer(now, key, cancelled(name), out);
            let Some(consumer) = self.consumer_mut(key) else { continue };
            let dropped = consumer.release_everything();
            self.revoke_all(key, dropped, out);
        }
        self.forget(id, out);
        Ok(())
    }
}

pub(in crate::state::leases) fn no_job_named(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no job {name:?}")).hint("see `forebay jobs`")
}

/// The key of a job by tenant and name.
pub(in crate::state::leases) fn name_key(tenant: &str, name: &str) -> (String, String) {
    (tenant.to_owned(), name.to_owned())
}
