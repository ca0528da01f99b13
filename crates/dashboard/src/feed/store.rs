//! The state that requests and the sampler share: the calls, the recent answers, history and events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::JobStatus;

use super::answers::Answers;
use super::calls::{Caller, Calls};
use super::events::{Event, Events};
use super::history::{History, JobId, Series};
use super::sampler::unix_ms;
use crate::model::{Overview, Page, Snapshot};

/// The state of a dashboard.
pub(crate) struct Store {
    calls: Arc<dyn Calls>,
    services: Answers<Caller, Snapshot>,
    jobs: Answers<(Caller, String), Vec<JobStatus>>,
    history: Mutex<History>,
    events: Mutex<Events>,
}

impl Store {
    pub(crate) fn new(calls: Arc<dyn Calls>) -> Self {
        let (services, jobs) = (Answers::default(), Answers::default());
        Self { calls, services, jobs, history: Mutex::default(), events: Mutex::default() }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the snapshot that the caller may see, and adds it to the history.
    ///
    /// # Errors
    /// Any error of the calls.
    pub(crate) async fn snapshot(&self, caller: &Caller) -> Result<Arc<Snapshot>> {
        let caller = self.calls.as_seen(caller);
        let seen = self.services.get(caller.clone(), self.look(&caller)).await?;
        Ok(seen)
    }

    async fn look(&self, caller: &Caller) -> Result<Snapshot> {
        let (jobs, workers) = (self.calls.jobs(caller, "").await?, self.calls.workers(caller).await?);
        let scale = match self.calls.scale(caller).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            scale => Some(scale?),
        };
        let seen = Snapshot { at_ms: unix_ms(), jobs, workers, scale };
        let live = seen.workers.iter().filter(|w| !w.local && w.state != "lost").count();
        self.history().add(seen.at_ms, &seen.jobs, live);
        Ok(seen)
    }

    /// Returns one job in full, as the caller may see it.
    ///
    /// # Errors
    /// NotFound; Invalid if `tenant` is `None` and several tenants have a job of this name; any error of the calls.
    pub(crate) async fn job(&self, caller: &Caller, name: &str, tenant: Option<&str>) -> Result<JobStatus> {
        if name.is_empty() {
            return Err(Error::invalid("no job is named").hint("give the parameter name"));
        }
        let caller = self.calls.as_seen(caller);
        let ask = self.calls.jobs(&caller, name);
        let found = self.jobs.get((caller.clone(), name.to_owned()), ask).await?;
        let of_tenant: Vec<_> = found.iter().filter(|job| tenant.is_none_or(|tenant| job.tenant == tenant)).collect();
        // A cancelled job of the same name is older.
        let newest = of_tenant.last().copied();
        if of_tenant.iter().any(|job| Some(&job.tenant) != newest.map(|newest| &newest.tenant)) {
            return Err(Error::invalid("several tenants have a job of this name").hint("give the parameter tenant"));
        }
        newest.cloned().ok_or_else(|| {
            let name: String = name.chars().take(60).collect();
            Error::new(ErrorKind::NotFound, format!("there is no job {name:?}")).hint("see the list of jobs")
        })
    }

    /// Returns the history of a job that the caller was shown.
    pub(crate) fn series(&self, job: &JobStatus) -> Series {
        let id: JobId = (job.tenant.clone(), job.name.clone());
        self.history().series(&id)
    }

    /// Returns the overview that the caller may see.
    pub(crate) fn overview<'a>(&self, seen: &'a Snapshot, page: &Page) -> Overview<'a> {
        let history = self.history();
        Overview::of(seen, page, |job| history.spark(job))
    }

    /// Returns the events that the caller may see, the newest first: events of jobs that it sees, and events of the
    /// whole service if it is an administrator.
    pub(crate) fn list_events(&self, seen: &Snapshot, search: &str, most: usize) -> Vec<Event> {
        let jobs: std::collections::HashSet<_> = seen.jobs.iter().map(|job| (&*job.tenant, &*job.name)).collect();
        let may_see = |event: &Event| match event.concerns() {
            Some(job) => jobs.contains(&job),
            None => seen.scale.is_some(),
        };
        self.events().list(|event| may_see(event) && (search.is_empty() || event.has(search)), most)
    }

    /// Adds the events of a snapshot of the sampler, or the event that the snapshot failed.
    pub(crate) fn note(&self, look: Result<&Snapshot, &Error>) {
        match look {
            Ok(seen) => self.events().add(seen),
            Err(error) => self.events().fail(unix_ms(), error.message()),
        }
    }
}
