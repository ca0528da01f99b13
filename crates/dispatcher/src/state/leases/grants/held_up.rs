//! Jobs that are held up: they occupy a worker and make no progress because their source hangs there.
//!
//! The worker reports them, and their splits take no room from other jobs. To keep such a job from taking all further
//! room, it gets more splits only while it has fewer unfinished ones there than the worker has threads. Once
//! [`JOBS_MAX`] jobs of a tenant hang at a worker, the tenant's jobs without a split there get none. No lease is taken
//! back: a job continues once its source answers, and meanwhile other workers run backups of its late splits.

use std::collections::BTreeSet;

use crate::records::ConsumerKey;
use crate::state::input::SessionId;
use crate::state::leases::machine::Leases;
use crate::state::leases::workers::worker::Worker;

/// Jobs of one tenant that may hang at a worker before the tenant's other jobs get no split there: each occupies a
/// thread.
pub(in crate::state) const JOBS_MAX: usize = 64;
/// The most held-up jobs that a worker may report.
const TOLD_MAX: usize = 4096;

impl Leases {
    /// Notes which jobs a worker reports as held up.
    pub(in crate::state) fn note_held_up(&mut self, session: SessionId, said: &[u64]) {
        let Some(worker) = self.worker_sessions.get(&session).and_then(|id| self.workers.get_mut(id)) else { return };
        let held_up: BTreeSet<u64> = said.iter().copied().take(TOLD_MAX).collect();
        if worker.held_up != held_up {
            worker.held_up = held_up;
            self.changed = true;
        }
    }

    /// Returns whether a consumer's job may get no more of a worker, because the job or others of its tenant are held
    /// up there.
    pub(in crate::state::leases) fn fills(&self, tenant: &str, key: ConsumerKey, worker: &Worker) -> bool {
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
