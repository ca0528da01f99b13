//! Views of jobs and workers for the other machines, which read nothing else of leases.

use std::sync::Arc;

use forebay_core::WorkerId;

use crate::records::{ConsumerKey, JobRecord};

/// A job that is read.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct JobView<'a> {
    pub(in crate::state) record: &'a Arc<JobRecord>,
    pub(in crate::state) consumers: u32,
    /// How many workers its tenant's quota allows; `None` without a quota.
    pub(in crate::state) workers_max: Option<u32>,
}

impl JobView<'_> {
    pub(in crate::state) fn id(&self) -> u64 {
        self.record.id
    }
}

/// A worker.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct WorkerView<'a> {
    pub(in crate::state) id: WorkerId,
    pub(in crate::state) address: &'a Arc<str>,
    pub(in crate::state) threads: u32,
    /// The tenant that it computes for; `None` for all tenants.
    pub(in crate::state) serves: Option<&'a Arc<str>>,
    /// Of a local worker: the only consumer that it computes for.
    pub(in crate::state) only: Option<ConsumerKey>,
    /// Whether it is connected and not leaving.
    pub(in crate::state) is_live: bool,
}

impl WorkerView<'_> {
    pub(in crate::state) fn is_local(&self) -> bool {
        self.only.is_some()
    }

    pub(in crate::state) fn serves(&self, tenant: &str) -> bool {
        self.serves.is_none_or(|serves| **serves == *tenant)
    }
}

/// The role of a worker that reports on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum Reporter {
    /// A worker that serves more than one consumer.
    Fleet,
    /// The local worker of this consumer.
    Local(u32),
}
