//! The counters of an op: plain sums that add up over threads, processes and time.
//!
//! All rows are counted; time and bytes are measured for `timed` rows only. The total is the average per timed row,
//! times the number of rows.

use serde::{Deserialize, Serialize};

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpCounters {
    /// Rows that went in.
    pub rows_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// The input rows of a cache point that were found, so that this process did not compute them.
    pub rows_found: u64,
    /// The number of rows that the counters below cover; about as many as went in.
    pub timed: u64,
    /// Nanoseconds, summed over threads.
    pub nanos: u64,
    /// Bytes that went in.
    pub bytes_in: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
}

/// The counters of one fused op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpReport {
    /// The places of its ops as written; reading the source has none.
    pub places: Vec<usize>,
    /// The counters.
    pub sums: OpCounters,
}

impl OpCounters {
    /// Adds later counts.
    pub fn add(&mut self, more: &Self) {
        self.each(more, u64::saturating_add);
    }

    /// Returns the counts since `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.each(before, u64::saturating_sub);
        self
    }

    /// Returns the counters, each limited to `most`.
    #[must_use]
    pub fn at_most(mut self, most: u64) -> Self {
        self.each(&Self::default(), |sum, _| sum.min(most));
        self
    }

    fn each(&mut self, other: &Self, f: impl Fn(u64, u64) -> u64) {
        self.rows_in = f(self.rows_in, other.rows_in);
        self.rows_out = f(self.rows_out, other.rows_out);
        self.rows_found = f(self.rows_found, other.rows_found);
        self.timed = f(self.timed, other.timed);
        self.nanos = f(self.nanos, other.nanos);
        self.bytes_in = f(self.bytes_in, other.bytes_in);
        self.bytes_out = f(self.bytes_out, other.bytes_out);
    }

    /// Returns the average per timed row of one of these sums.
    pub fn of_row(&self, sum: u64) -> f64 {
        if self.timed == 0 { 0.0 } else { sum as f64 / self.timed as f64 }
    }

    /// Returns the totals of all rows: seconds of threads, bytes in and bytes out.
    pub fn scaled(&self) -> (f64, u64, u64) {
        let all = |sum: u64| self.of_row(sum) * self.rows_in as f64;
        (all(self.nanos) / 1e9, all(self.bytes_in).round() as u64, all(self.bytes_out).round() as u64)
    }
}
