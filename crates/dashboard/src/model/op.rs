//! The costs of one op of a job: shows slow ops, and ops whose output is larger than their input.

use forebay_proto::OpStatus;
use serde::Serialize;

/// An op in JSON, which `forebay sim --profile` reads.
#[derive(Debug, Clone, Serialize)]
pub struct Op<'a> {
    /// Its title, as in errors.
    pub op: &'a str,
    /// The user's line; `null` if it is not known.
    pub line: Option<&'a str>,
    /// "workers", "local" or "reader".
    pub at: &'a str,
    /// Rows that went in.
    pub rows_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// The rows of `rows_in` that a cache had.
    pub rows_found: u64,
    /// Thread-seconds.
    pub seconds: f64,
    /// Bytes that went in.
    pub bytes_in: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
    /// The recent cost of an input row, in microseconds of a thread.
    pub row_us: f64,
    /// Whether the figures are from earlier jobs with the same pipeline.
    pub earlier: bool,
    /// The op's share of the thread time of all ops at their recent costs, 0 to 1; `null` if no op has a cost.
    pub share: Option<f64>,
}

impl<'a> Op<'a> {
    /// Makes the JSON of a job's ops.
    pub fn all(ops: &'a [OpStatus]) -> Vec<Self> {
        let all: f64 = ops.iter().map(weight).sum();
        ops.iter().map(|op| Self::of(op, all)).collect()
    }

    fn of(op: &'a OpStatus, all: f64) -> Self {
        Self {
            op: &op.op,
            line: Some(&*op.line).filter(|line| !line.is_empty()),
            at: &op.at,
            rows_in: op.rows_in,
            rows_out: op.rows_out,
            rows_found: op.rows_found,
            seconds: op.seconds,
            bytes_in: op.bytes_in,
            bytes_out: op.bytes_out,
            row_us: op.row_us,
            earlier: op.earlier,
            share: (all > 0.0).then(|| weight(op) / all),
        }
    }

    /// Returns the costliest op, if any op has a cost.
    pub fn costliest(ops: &[Self]) -> Option<&Self> {
        let most = ops.iter().max_by(|a, b| a.share.unwrap_or(0.0).total_cmp(&b.share.unwrap_or(0.0)));
        most.filter(|op| op.share.is_some_and(|share| share > 0.0))
    }
}

/// Returns the time of an op's rows at the recent cost of a row.
fn weight(op: &OpStatus) -> f64 {
    op.row_us * op.rows_in as f64
}
