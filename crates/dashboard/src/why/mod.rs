//! One sentence that names the bottleneck of a job: data, training, or unknown.
//!
//! Pure: a function of the figures that the dispatcher lists. The sentence uses the number of workers that the
//! service's own policy wants, so it agrees with the decisions. Only a service with a fixed number gets an estimate.

mod figures;
mod sentence;
#[cfg(test)]
mod tests;

use forebay_proto::{JobStatus, WorkerStatus};
use serde::Serialize;

pub use figures::{Figures, Hold, Need, TopOp};
pub use sentence::judge;

/// The bottleneck of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Training waits for data.
    Data,
    /// Data waits for training.
    Training,
    /// The consumers have reported too little.
    Unknown,
    /// The job is over, or no consumer is attached.
    Nothing,
}

/// The bottleneck of a job in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// "data", "training", "unknown" or "nothing".
    pub bound: Bound,
    /// The sentence for people, with the figures.
    pub sentence: String,
    /// The costliest op; `null` if the call did not request ops, or none was measured.
    pub op: Option<String>,
    /// How many more workers (below 0: fewer) the job needs; `null` if it is not known.
    pub workers_more: Option<i64>,
}

/// Returns the bottleneck of a job. It names an op only if the call requested the job by its name.
pub fn why(job: &JobStatus, workers: &[WorkerStatus]) -> Verdict {
    judge(&Figures::of(job, workers))
}
