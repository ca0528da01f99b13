//! Jobs that hold places of a worker and bring nothing, because what they read hangs there.
//!
//! A worker says which these are (`forebay_worker`), and their splits take no room from others. So that they do not take all that
//! it asks for on top, such a job is given more only while it has fewer splits under way there than the worker has threads, and a
//! tenant of which [`JOBS_MAX`] hang there no job that has none there. Nothing that was granted is taken back: a job goes on where it
//! is once its source answers, and other workers race what is late meanwhile.

use std::collections::BTreeSet;

use super::worker::Worker;
use crate::records::ConsumerKey;
use crate::state::{SessionId, State};

/// Jobs of one tenant that may hang at a worker before it is given no others of that tenant: each has a thread there.
pub(in crate::state) const JOBS_MAX: usize = 64;
/// Jobs that a worker may say are held up.
const TOLD_MAX: usize = 4096;

impl State {
    /// Notes what a worker says of jobs that are held up there.
    pub(in crate::state) fn note_held_up(&mut self, session: SessionId, said: &[u64]) {
        let Some(worker) = self.worker_sessions.get(&session).and_then(|id| self.workers.get_mut(id)) else { return };
        let held_up: BTreeSet<u64> = said.iter().copied().take(TOLD_MAX).collect();
        if worker.held_up != held_up {
            worker.held_up = held_up;
            self.changed = true;
        }
    }

    /// Says whether a consumer's job holds as much of a worker as it may, because it or others of its tenant are held up there.
    pub(in crate::state) fn fills(&self, tenant: &str, key: ConsumerKey, worker: &Worker) -> bool {
        if worker.held_up.is_empty() {
            return false;
        }
        let under_way = || worker.unfinished().filter(|split| split.0.0 == key.0).count();
        if worker.held_up.contains(&key.0) {
            return under_way() >= worker.threads.max(1) as usize;
        }
        let is_own = |job: &&u64| self.jobs.get(job).is_some_and(|job| job.record.tenant == tenant);
        worker.held_up.iter().filter(is_own).count() >= JOBS_MAX && under_way() == 0
    }
}
