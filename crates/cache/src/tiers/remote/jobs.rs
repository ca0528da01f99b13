//! The queue of jobs for the maintenance thread of a remote tier.
//!
//! Bounds: [`JOBS_MAX`] jobs wait. A job that does not fit is dropped, and comes up again when it is needed again.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::lock::{left, lock};
use crate::state::prefix::PrefixState;
use crate::tiers::block::name::Name;

/// The most jobs that wait.
const JOBS_MAX: usize = 64;

/// A job of the thread. It is dropped when its prefix is no longer used.
#[derive(Debug)]
pub(crate) enum Job {
    /// List the blocks of a prefix.
    Look { state: Weak<PrefixState>, done: Arc<Done> },
    /// List them again when that is due.
    LookAgain { state: Weak<PrefixState> },
    /// Copy a block to the local disk.
    CopyToDisk { state: Weak<PrefixState>, block: u32 },
    /// Read a block that seems broken as a whole, and delete it if it is.
    Inspect { state: Weak<PrefixState>, name: Name, len: u64 },
}

/// Signals that a job is done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Done {
    pub(super) fn set(&self) {
        *lock(&self.done) = true;
        self.changed.notify_all();
    }

    /// Waits until the job is done, `limit` at most.
    pub(super) fn wait(&self, limit: Duration) {
        let waited = self.changed.wait_timeout_while(lock(&self.done), limit, |done| !*done);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The queue of jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<(VecDeque<Job>, bool)>,
    changed: Condvar,
}

impl Jobs {
    /// Adds a job; returns whether there was room.
    pub(crate) fn push(&self, job: Job) -> bool {
        let mut state = lock(&self.state);
        let fits = state.0.len() < JOBS_MAX && !state.1;
        if fits {
            // A pipeline may wait for a listing.
            if matches!(job, Job::Look { .. }) {
                state.0.push_front(job)
            } else {
                state.0.push_back(job)
            }
            self.changed.notify_all();
        }
        fits
    }

    pub(crate) fn close(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }

    /// Returns the next job, or `Some(None)` when there is none by `until`; `None` when the queue is closed.
    pub(super) fn next(&self, until: Instant) -> Option<Option<Job>> {
        let mut state = lock(&self.state);
        loop {
            if state.1 {
                return None;
            }
            if let Some(job) = state.0.pop_front() {
                return Some(Some(job));
            }
            let left = left(until);
            if left.is_zero() {
                return Some(None);
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.map_or_else(|e| e.into_inner().0, |(state, _)| state);
        }
    }
}
