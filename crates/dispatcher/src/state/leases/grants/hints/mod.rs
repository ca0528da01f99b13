//! Hints for grants: preferences on which nothing depends.
//!
//! - `affinity`: the worker whose caches hold the rows of a split, or that reads the splits beside it.
//! - `sharing`: the worker that computes the same split for another job.
//!
//! A hint only names a worker for a split. `grant` and `share` decide whether that worker may have the split, as for
//! any other worker, so a wrong hint costs time and breaks no invariant: the tests run random histories with hints that
//! are reversed and constant.

pub(in crate::state::leases) mod affinity;
pub(in crate::state::leases) mod sharing;

use std::fmt::Debug;

use forebay_core::WorkerId;

use crate::records::{ConsumerKey, JobRecord, Position};

/// An event of jobs and splits.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) enum HintEvent<'a> {
    JobAdded(&'a JobRecord),
    JobGone(u64),
    /// The job has had no attached consumer for the consumer timeout.
    Unread(u64),
    /// A worker of the fleet got a split.
    Granted(ConsumerKey, Position, WorkerId),
}

/// The splits that a consumer may have leased, and the workers that share them.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct Lookahead {
    pub(in crate::state) splits: u64,
    pub(in crate::state) workers: u64,
}

/// Names workers for splits.
pub(in crate::state) trait GrantHint: Debug + Send + Sync {
    /// Notes an event. Events come in order. `Unread` repeats for as long as the job has no attached consumer.
    fn note(&mut self, event: &HintEvent<'_>);

    /// Returns the worker that should compute a split; `None` if any worker may. The worker may be gone.
    fn worker(&self, key: ConsumerKey, position: Position, lookahead: Lookahead) -> Option<WorkerId>;

    /// Returns whether [`worker`](Self::worker) may name one for some split of the job. A job without hints costs
    /// nothing.
    fn knows(&self, job: u64) -> bool;

    /// Returns whether another worker than the named one would read much of the split's source once more. Then it gets the
    /// split only when the consumer needs it next.
    fn is_strict(&self, _job: u64) -> bool {
        false
    }

    /// Returns the jobs that compute the same splits as this one, and this one; none if it is alone.
    fn group_of(&self, _job: u64) -> Vec<u64> {
        Vec::new()
    }

    /// Returns the jobs of all groups, group by group.
    fn grouped(&self) -> Vec<u64> {
        Vec::new()
    }
}
