//! What workers cache of jobs with `cache()` or `autocache()`, as last reported: for people. Nothing is decided on it
//! here.
//!
//! Bounds: one text of at most [`JSON_BYTES_MAX`] for each job and connected worker.

use std::sync::Arc;

use forebay_core::WorkerId;
use forebay_proto::{Caching, WorkerCaching};

use crate::state::{Job, SessionId, State};

/// The longest text that is accepted.
const JSON_BYTES_MAX: usize = 64 << 10;

impl State {
    /// Takes a worker's reports on jobs that it computes for.
    pub(in crate::state) fn note_caching(&mut self, session: SessionId, said: &[Caching]) {
        let Some(id) = self.worker_sessions.get(&session).copied() else { return };
        let Some(worker) = self.workers.get(&id) else { return };
        for caching in said.iter().filter(|caching| caching.json.len() <= JSON_BYTES_MAX) {
            let is_own = worker.only.is_none_or(|(job, _)| job == caching.job);
            let job = self.jobs.get_mut(&caching.job).filter(|job| is_own && worker.serves(&job.record.tenant));
            if let Some(job) = job {
                job.caching.insert(id, Arc::from(caching.json.as_str()));
            }
        }
    }

    /// Forgets what a lost worker cached in memory.
    pub(in crate::state) fn forget_caching(&mut self, id: WorkerId) {
        for job in self.jobs.values_mut() {
            job.caching.remove(&id);
        }
    }
}

impl Job {
    /// Returns what workers cache of the job.
    pub(in crate::state) fn caching(&self) -> Vec<WorkerCaching> {
        let told = |(id, json): (&WorkerId, &Arc<str>)| WorkerCaching {
            worker: format!("{:032x}", id.0),
            json: json.to_string(),
        };
        self.caching.iter().map(told).collect()
    }
}
