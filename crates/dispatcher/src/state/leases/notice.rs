//! Notices of leases to the other machines: events that end something which they keep.

use std::sync::Arc;

use forebay_core::WorkerId;

use crate::records::{ConsumerKey, JobRecord};

#[derive(Debug, Clone)]
pub(in crate::state) enum Notice {
    /// A consumer has read more epochs of its job to the end: the job, and the number of these epochs.
    EpochsRead(Arc<JobRecord>, u64),
    /// The session of a consumer began, or another process took it over.
    Attached(ConsumerKey),
    /// The session of a consumer ended.
    ConsumerGone(ConsumerKey, Arc<JobRecord>),
    WorkerGone(WorkerId),
    JobGone(u64),
}
