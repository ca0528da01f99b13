//! Jobs leave: those that are over when there are many or after a while, and those that nobody has read for as long.
//!
//! What was learned of their datasets stays, and so do the names: the next job may have one. A reader that comes back later opens its
//! job anew, from its saved state. Bounds: of each tenant so many jobs that are over ([`Retention::jobs`]), as many that are not and that
//! nobody has read for [`ABANDONED`], and those that were read within that. Invariant: what is read, or was a moment ago, stays.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks};

use super::lifecycle::{no_job_named, whole};
use crate::options::Retention;
use crate::records::Update;
use crate::state::leases::consumer::Consumer;
use crate::state::{Effect, Job, State};

/// How long nobody has read a job that is not over and is one of too many: longer than readers are cut off, or being restarted.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Job {
    /// Says whether nothing more comes of it.
    pub(in crate::state) fn is_over(&self) -> bool {
        self.record.cancelled || self.is_finished()
    }

    /// Returns since when nobody reads it.
    pub(in crate::state) fn unread_since(&self) -> Option<Ticks> {
        let gone = |consumer: &Consumer| consumer.attached.is_none().then_some(consumer.gone);
        self.consumers.iter().map(gone).try_fold(Ticks(0), |last, gone| Some(last.max(gone?)))
    }
}

impl State {
    /// Says what is remembered of jobs that are over.
    pub(crate) fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Removes the jobs whose time is up.
    pub(in crate::state) fn retire(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let (Retention { jobs: most, age, .. }, moment) = (self.retention, self.timing.consumer_timeout);
        let mut unread: BTreeMap<(&str, bool), Vec<(Ticks, u64)>> = BTreeMap::new();
        let mut leave = Vec::new();
        for (id, job) in &mut self.jobs {
            let Some(since) = job.unread_since().filter(|since| now - *since >= moment) else { continue };
            job.affinity.clear();
            let job: &Job = job;
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
    /// NotFound when there is none of that name; Conflict while it goes on, or is read.
    pub(crate) fn forget_job(&mut self, tenant: &str, name: &str, out: &mut Vec<Effect>) -> Result<()> {
        let id = *self.names.get(&whole(tenant, name)).ok_or_else(|| no_job_named(name))?;
        let job = self.jobs.get(&id).ok_or_else(|| no_job_named(name))?;
        let (why, hint) = match (job.is_over(), job.unread_since()) {
            (false, _) => ("goes on", format!("cancel it first: `forebay jobs cancel {name}`")),
            (true, None) => ("is being read", "wait until its readers have ended".to_owned()),
            (true, Some(_)) => {
                self.remove_job(id, out);
                return Ok(());
            }
        };
        let error = Error::new(ErrorKind::Conflict, format!("job {name:?} {why}: it cannot be forgotten now"));
        Err(error.hint(hint))
    }

    /// Removes a job with all that belongs to it.
    pub(in crate::state) fn remove_job(&mut self, id: u64, out: &mut Vec<Effect>) {
        let consumers = self.jobs.get(&id).map_or(0, |job| job.consumers.len() as u32);
        for key in (0..consumers).map(|index| (id, index)) {
            let dropped = self.consumer_mut(key).map(Consumer::release_everything).unwrap_or_default();
            self.revoke_all(key, dropped, out);
        }
        self.forget(id, out);
        let Some(job) = self.jobs.remove(&id) else { return };
        let name = whole(&job.record.tenant, &job.record.name);
        if self.names.get(&name) == Some(&id) {
            self.names.remove(&name);
        }
        self.sharing.remove(id);
        self.counts.jobs_forgotten += 1;
        self.changed = true;
        out.push(Effect::Persist(Update::JobGone(id)));
    }
}
