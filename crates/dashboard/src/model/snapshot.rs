//! A snapshot of a service: the answers of the dispatcher to one caller.

use forebay_proto::{GetScaleResponse, JobStatus, WorkerStatus};

/// The answers of a dispatcher to one caller.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Milliseconds since 1970, by the clock of the process that asked.
    pub at_ms: u64,
    /// The jobs that the caller may see, the oldest first.
    pub jobs: Vec<JobStatus>,
    /// The workers that the caller may see.
    pub workers: Vec<WorkerStatus>,
    /// `None` for callers that are no administrators.
    pub scale: Option<GetScaleResponse>,
}
