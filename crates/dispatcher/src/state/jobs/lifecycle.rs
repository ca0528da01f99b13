//! Creates, finds and cancels jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result, Ticks};

use super::epoch_ends::EpochEnds;
use super::skipped::SkippedTally;
use crate::records::{JobRecord, Position, Update};
use crate::state::fleet::worker_types::JobCost;
use crate::state::leases::affinity::CacheAffinity;
use crate::state::leases::consumer::Consumer;
use crate::state::leases::consumers::cancelled;
use crate::state::leases::stragglers::SplitDurations;
use crate::state::load::job_load::JobLoad;
use crate::state::load::op_costs::OpCosts;
use crate::state::scaling::placement::Placement;
use crate::state::scaling::scale::Scale;
use crate::state::{Effect, Job, State};
use crate::tenant::Quota;

impl State {
    /// Advances the next job number, so that no job gets a number which another copy of the ledger gave out.
    pub(crate) fn pass_job_numbers(&mut self, by: u32) {
        self.next_job = self.next_job.saturating_add(by.into());
    }

    /// Returns a tenant's job by name. The name of a cancelled job is free.
    pub(crate) fn job(&self, tenant: &str, name: &str) -> Option<&Arc<JobRecord>> {
        let record = &self.jobs.get(self.names.get(&name_key(tenant, name))?)?.record;
        (!record.cancelled).then_some(record)
    }

    /// Returns the records of all jobs.
    pub(crate) fn records(&self) -> Vec<Arc<JobRecord>> {
        self.jobs.values().map(|job| job.record.clone()).collect()
    }

    /// Creates a job with `splits` for an epoch of each consumer, and gives it its number. The job must be within its
    /// tenant's quota.
    ///
    /// # Errors
    /// Conflict when the name is taken; Exhausted when the quota is used up.
    pub(crate) fn create(
        &mut self,
        now: Ticks,
        mut record: JobRecord,
        splits: &[Option<u64>],
        quota: Quota,
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
        (record.id, record.read_before) = (self.next_job, self.profiles.epochs_read(&record));
        let record = Arc::new(record);
        self.add(now, record.clone(), splits);
        self.warm_start(now, record.id);
        out.push(Effect::Persist(Update::Job(record.clone())));
        Ok(record)
    }

    pub(in crate::state) fn add(&mut self, now: Ticks, record: Arc<JobRecord>, splits: &[Option<u64>]) {
        let consumers = splits.iter().map(|s| Consumer::new(*s, record.epochs, Position::default(), now)).collect();
        self.next_job = self.next_job.max(record.id + 1);
        self.names.insert(name_key(&record.tenant, &record.name), record.id);
        let (streamed, placement) = (record.is_streamed(), Placement::of(&record));
        self.sharing.add(&record);
        let (affinity, epoch_ends) = (CacheAffinity::new(&record), EpochEnds::of(&record));
        let (split_durations, load, scale) =
            (SplitDurations::default(), JobLoad::new(now, self.spent_us), Scale::new(&self.scaling));
        self.jobs.insert(
            record.id,
            Job {
                record,
                consumers,
                streamed,
                split_durations,
                second_leases: 0,
                load,
                scale,
                caching: BTreeMap::new(),
                op_costs: OpCosts::default(),
                placement,
                cost: JobCost::default(),
                affinity,
                skipped: SkippedTally::default(),
                epoch_ends,
            },
        );
    }

    /// Cancels a job for good.
    ///
    /// # Errors
    /// NotFound when there is no job of that name; Closed when it was cancelled before.
    pub(crate) fn cancel(&mut self, now: Ticks, tenant: &str, name: &str, out: &mut Vec<Effect>) -> Result<()> {
        self.changed = true;
        let id = *self.names.get(&name_key(tenant, name)).ok_or_else(|| no_job_named(name))?;
        let job = self.jobs.get_mut(&id).ok_or_else(|| no_job_named(name))?;
        if job.record.cancelled {
            return Err(cancelled(name));
        }
        job.record = Arc::new(JobRecord { cancelled: true, ..(*job.record).clone() });
        out.push(Effect::Persist(Update::Job(job.record.clone())));
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

pub(in crate::state) fn no_job_named(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no job {name:?}")).hint("see `forebay jobs`")
}

/// The key of a job by tenant and name.
pub(in crate::state) fn name_key(tenant: &str, name: &str) -> (String, String) {
    (tenant.to_owned(), name.to_owned())
}
