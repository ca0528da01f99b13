//! What an op did: plain sums that add up over threads, processes and time.
//!
//! Rows are counted, time and bytes are taken of some of them, which `timed` says how many they are: all of it is what a row
//! came to, times the rows.

use serde::{Deserialize, Serialize};

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpCounters {
    /// Rows that went in.
    pub rows_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// Of those that went into `cache`, the ones that were found: nobody computed them here.
    pub rows_found: u64,
    /// The rows that the rest is about: about as many as went in.
    pub timed: u64,
    /// Nanoseconds of threads.
    pub nanos: u64,
    /// Bytes that went in.
    pub bytes_in: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
}

/// What the ops that are fused in a piece of work did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpReport {
    /// Their places as written; reading has none.
    pub places: Vec<usize>,
    /// What they did.
    pub sums: OpCounters,
}

impl OpCounters {
    /// Adds what was done later.
    pub fn add(&mut self, more: &Self) {
        self.each(more, u64::saturating_add);
    }

    /// Returns what was done since there was only `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.each(before, u64::saturating_sub);
        self
    }

    /// Returns them with none above `most`.
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

    /// Returns the part that a row has in a sum of these.
    pub fn of_row(&self, sum: u64) -> f64 {
        if self.timed == 0 { 0.0 } else { sum as f64 / self.timed as f64 }
    }

    /// Returns seconds of threads, bytes that went in and bytes that came out, of all rows.
    pub fn scaled(&self) -> (f64, u64, u64) {
        let all = |sum: u64| self.of_row(sum) * self.rows_in as f64;
        (all(self.nanos) / 1e9, all(self.bytes_in).round() as u64, all(self.bytes_out).round() as u64)
    }
}
