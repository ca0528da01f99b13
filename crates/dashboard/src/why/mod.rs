//! One sentence that says what holds a job back: data, training, or nothing that is known.
//!
//! Pure: a function of the figures that the dispatcher lists. The number of workers is the one that the service's own
//! policy wants, so the sentence agrees with the decisions; only a service with a fixed number gets an estimate.

mod figures;
mod sentence;
#[cfg(test)]
mod tests;

use forebay_proto::{JobStatus, WorkerStatus};
use serde::Serialize;

pub use figures::{Figures, Hold, Need, TopOp};
pub use sentence::judge;

/// What holds a job back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Training waits for data.
    Data,
    /// Data waits for training.
    Training,
    /// Too little was reported.
    Unknown,
    /// The job is over, or nobody reads it.
    Nothing,
}

/// What holds a job back, in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// "data", "training", "unknown" or "nothing".
    pub bound: Bound,
    /// The same for people, with the figures.
    pub sentence: String,
    /// The costliest op; `null` if ops were not asked for or none was measured.
    pub op: Option<String>,
    /// How many workers more (or, below 0, fewer) would be right; `null` if it is not known.
    pub workers_more: Option<i64>,
}

/// Says what holds a job back. The op is named only if the job was asked for by its name.
pub fn why(job: &JobStatus, workers: &[WorkerStatus]) -> Verdict {
    judge(&Figures::of(job, workers))
}
