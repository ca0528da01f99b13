//! Notices of leases to the other machines: events that end something which they keep.

use std::sync::Arc;

use forebay_core::WorkerId;

use crate::records::{ConsumerKey, JobRecord};
use crate::state::lost_workers::LostWorker;

#[derive(Debug, Clone)]
pub(in crate::state) enum Notice {
    /// A consumer has read more epochs of its job to the end: the job, and the number of these epochs.
    EpochsRead(Arc<JobRecord>, u64),
    /// The session of a consumer began, or another process took it over.
    Attached(ConsumerKey),
    /// The session of a consumer ended.
    ConsumerGone(ConsumerKey, Arc<JobRecord>),
    /// A worker is gone; it was lost unless it left in order.
    WorkerGone(WorkerId, Option<LostWorker>),
    JobGone(u64),
}
