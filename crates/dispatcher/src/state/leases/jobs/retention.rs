//! Removes jobs: finished or cancelled ones when there are too many of them or after a while, and jobs without a
//! consumer for as long.
//!
//! The profiles of their datasets stay, and their names are free for new jobs. A consumer that comes back later opens
//! its job anew from its saved state.
//!
//! Bounds, for each tenant: [`Retention::jobs`] jobs that are over; as many that are not over and unread for
//! [`ABANDONED`]; and the jobs that were read within that time. Invariant: a job that is read, or was read a moment
//! ago, stays.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks};

use super::lifecycle::{name_key, no_job_named};
use crate::options::Retention;
use crate::records::Update;
use crate::state::effect::Effect;
use crate::state::leases::consumers::consumer::Consumer;
use crate::state::leases::durable::Durable;
use crate::state::leases::grants::hints::HintEvent;
use crate::state::leases::job::Job;
use crate::state::leases::machine::Leases;
use crate::state::leases::notice::Notice;

/// An unfinished job counts as abandoned when it had no consumer for this long: longer than a network failure or a
/// restart of its consumers takes.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Job {
    /// Returns whether the job was cancelled or has finished.
    pub(in crate::state::leases) fn is_over(&self) -> bool {
        self.record.cancelled || self.is_finished()
    }

    /// Returns since when the job has no consumer; `None` while it has one.
    pub(in crate::state::leases) fn unread_since(&self) -> Option<Ticks> {
        let gone = |consumer: &Consumer| consumer.attached.is_none().then_some(consumer.gone);
        self.consumers.iter().map(gone).try_fold(Ticks(0), |last, gone| Some(last.max(gone?)))
    }
}

impl Leases {
    /// Sets how many jobs that are over are kept, and how long.
    pub(in crate::state) fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Removes the jobs that are due.
    pub(in crate::state) fn retire(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let (Retention { jobs: most, age, .. }, moment) = (self.retention, self.timing.consumer_timeout);
        let mut unread: BTreeMap<(&str, bool), Vec<(Ticks, u64)>> = BTreeMap::new();
        let mut leave = Vec::new();
        for (id, job) in &self.jobs {
            let Some(since) = job.unread_since().filter(|since| now - *since >= moment) else { continue };
            let event = HintEvent::Unread(*id);
            [&mut self.affinity, &mut self.sharing].into_iter().for_each(|hint| hint.note(&event));
            if now - since >= age {
                leave.push(*id);
            } else if job.is_over() || now - since >= ABANDONED {
                unread.entry((&job.record.tenant, job.is_over())).or_default().push((since, *id));
            }
        }
        for mut jobs in unread.into_values().filter(|jobs| jobs.len() > most) {
            jobs.sort_unstable();
            leave.extend(jobs.iter().take(jobs.len() - most).map(|(_, id)| id));
        }
        for id in leave {
            self.remove_job(id, out);
        }
    }

    /// Removes a job that is over.
    ///
    /// # Errors
    /// NotFound when there is no job of that name; Conflict while the job is not over, or is read.
    pub(in crate::state) fn forget_job(&mut self, tenant: &str, name: &str, out: &mut Vec<Effect>) -> Result<()> {
        let id = *self.names.get(&name_key(tenant, name)).ok_or_else(|| no_job_named(name))?;
        let job = self.jobs.get(&id).ok_or_else(|| no_job_named(name))?;
        let (why, hint) = match (job.is_over(), job.unread_since()) {
            (false, _) => ("goes on", format!("cancel it first: `forebay jobs cancel {name}`")),
            (true, None) => ("is being read", "wait until its consumers have ended".to_owned()),
            (true, Some(_)) => {
                self.remove_job(id, out);
                return Ok(());
            }
        };
        let error = Error::new(ErrorKind::Conflict, format!("job {name:?} {why}: it cannot be forgotten now"));
        Err(error.hint(hint))
    }

    /// Removes a job with everything that belongs to it.
    pub(in crate::state::leases) fn remove_job(&mut self, id: u64, out: &mut Vec<Effect>) {
        let consumers = self.jobs.get(&id).map_or(0, |job| job.consumers.len() as u32);
        for key in (0..consumers).map(|index| (id, index)) {
            let dropped = self.consumer_mut(key).map(Consumer::release_everything).unwrap_or_default();
            self.revoke_all(key, dropped, out);
        }
        self.forget(id, out);
        let Some(job) = self.jobs.remove(&id) else { return };
        let name = name_key(&job.record.tenant, &job.record.name);
        if self.names.get(&name) == Some(&id) {
            self.names.remove(&name);
        }
        self.workers.values_mut().for_each(|worker| drop(worker.differs.remove(&id)));
        self.hint(&HintEvent::JobGone(id));
        self.notices.push(Notice::JobGone(id));
        self.counts.jobs_forgotten += 1;
        self.changed = true;
        out.push(Effect::Persist(Durable::new(Update::JobGone(id))));
    }
}
