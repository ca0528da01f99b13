//! A job in one row of a list.

use forebay_proto::JobStatus;
use serde::Serialize;

use super::optional::some;
use super::{Recent, Snapshot};
use crate::why::{Verdict, why};

/// A row of the list of jobs in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Summary<'a> {
    /// Empty if there are no tokens.
    pub tenant: &'a str,
    /// Its name.
    pub name: &'a str,
    /// As in a job.
    pub state: &'a str,
    /// The epoch of the slowest consumer.
    pub epoch: u64,
    /// `null` if it is endless.
    pub epochs: Option<u64>,
    /// The consumed share of all splits, of the slowest consumer, 0 to 1; `null` if it is endless.
    pub progress: Option<f64>,
    /// The number of its consumers, and of its attached consumers.
    pub consumers: usize,
    /// See `consumers`.
    pub attached: usize,
    /// The wanted number of workers; `null` while there is no decision.
    pub workers: Option<u32>,
    /// The connected workers that hold splits of it now; local workers do not count.
    pub workers_computing: u32,
    /// The last minute.
    pub recent: Recent,
    /// The longest current wait of a consumer, in milliseconds.
    pub waiting_ms: u64,
    /// Samples that were skipped.
    pub skipped: u64,
    /// Splits under speculative execution.
    pub raced: u64,
    /// The cost of workers for it since the dispatcher started, idle time included; 0 if no worker has a price.
    pub cost: f64,
    /// Its bottleneck.
    pub why: Verdict,
    /// Batches per second, the oldest first, one figure every two seconds; empty if no history was sampled.
    pub spark: Vec<f32>,
}

impl<'a> Summary<'a> {
    /// Makes the row of a job.
    pub fn of(job: &'a JobStatus, snapshot: &Snapshot, spark: Vec<f32>) -> Self {
        let attached = job.consumers.iter().filter(|c| c.attached);
        Self {
            tenant: &job.tenant,
            name: &job.name,
            state: &job.state,
            epoch: job.consumers.iter().map(|c| c.epoch).min().unwrap_or(0),
            epochs: some(job.epochs),
            progress: progress(job),
            consumers: job.consumers.len(),
            attached: attached.clone().count(),
            workers: Some(job.workers).filter(|&n| n > 0),
            workers_computing: job.workers_computing,
            recent: Recent::of(&job.consumers),
            waiting_ms: attached.map(|c| c.waiting_ms).max().unwrap_or(0),
            skipped: job.consumers.iter().map(|c| c.skipped).sum(),
            raced: job.raced,
            cost: cost(job),
            why: why(job, &snapshot.workers),
            spark,
        }
    }
}

/// Returns the share of a job's splits that its slowest consumer has consumed; `None` if the job is endless.
pub fn progress(job: &JobStatus) -> Option<f64> {
    if job.state == "finished" {
        return Some(1.0);
    }
    let epochs = some(job.epochs)? as f64;
    let of = |c: &forebay_proto::ConsumerStatus| match c.splits {
        0 => None,
        splits => Some(((c.epoch as f64 + c.ordinal as f64 / splits as f64) / epochs).clamp(0.0, 1.0)),
    };
    job.consumers.iter().map(of).try_fold(1.0, |least: f64, share| Some(least.min(share?)))
}

/// Returns the cost of workers for a job, idle time included.
pub fn cost(job: &JobStatus) -> f64 {
    job.worked.iter().map(|worked| worked.cost + worked.idle_cost).sum()
}
