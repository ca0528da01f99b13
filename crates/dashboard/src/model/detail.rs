//! One job in full.

use forebay_proto::{JobStatus, SplitStatus, WrittenOp};
use serde::Serialize;

use super::{Job, Recent, Snapshot, progress};
use crate::why::{Verdict, why};

/// A job in full, in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Detail<'a> {
    /// When the dispatcher was asked, in milliseconds since 1970.
    pub at_ms: u64,
    /// The job, with its ops and all of its decisions.
    #[serde(flatten)]
    pub job: Job<'a>,
    /// As in a row of the list.
    pub progress: Option<f64>,
    /// The last minute of all consumers.
    pub recent: Recent,
    /// Its bottleneck.
    pub why: Verdict,
    /// The ops as written, the source first.
    pub written: Vec<Written<'a>>,
    /// Splits that workers hold, at most 64, the first ones of each consumer.
    pub in_flight: Vec<InFlight<'a>>,
}

/// An op as written.
#[derive(Debug, Clone, Serialize)]
pub struct Written<'a> {
    /// Its title.
    pub op: &'a str,
    /// The user's line; `null` if it is not known.
    pub line: Option<&'a str>,
}

/// A split that a worker holds.
#[derive(Debug, Clone, Serialize)]
pub struct InFlight<'a> {
    /// Its consumer.
    pub consumer: u32,
    /// Its epoch.
    pub epoch: u64,
    /// Its number in the epoch.
    pub split: u64,
    /// The id of the worker.
    pub worker: &'a str,
    /// The worker that executes it speculatively; `null` if none does.
    pub second: Option<&'a str>,
}

impl<'a> Detail<'a> {
    /// Makes the JSON of a job that a call requested by its name.
    pub fn of(job: &'a JobStatus, snapshot: &Snapshot) -> Self {
        Self {
            at_ms: snapshot.at_ms,
            job: Job::of(job),
            progress: progress(job),
            recent: Recent::of(&job.consumers),
            why: why(job, &snapshot.workers),
            written: job.written.iter().map(Written::of).collect(),
            in_flight: job.splits.iter().map(InFlight::of).collect(),
        }
    }
}

fn filled(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl<'a> Written<'a> {
    fn of(op: &'a WrittenOp) -> Self {
        Self { op: &op.op, line: filled(&op.line) }
    }
}

impl<'a> InFlight<'a> {
    fn of(split: &'a SplitStatus) -> Self {
        let SplitStatus { consumer, epoch, ordinal, worker, second } = split;
        Self { consumer: *consumer, epoch: *epoch, split: *ordinal, worker, second: filled(second) }
    }
}
