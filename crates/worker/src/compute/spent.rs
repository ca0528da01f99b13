//! What the threads of this worker spent on each job since the dispatcher was told: on computing, and the rows that came of it; on
//! sending, and the bytes.
//!
//! Bounds: the jobs that a split was computed of; a report names [`JOBS_MAX`], and the rest is in the next ones.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use forebay_proto::{Sent, Spent};

use crate::lock::lock;

/// Jobs in one report.
const JOBS_MAX: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct Work {
    compute: Duration,
    rows: u64,
}

/// Not told yet, by job.
#[derive(Debug, Default)]
pub(crate) struct SpentTime(Mutex<BTreeMap<u64, Work>>);

impl SpentTime {
    pub(crate) fn add(&self, job: u64, compute: Duration, rows: u64) {
        let mut jobs = lock(&self.0);
        let work = jobs.entry(job).or_default();
        (work.compute, work.rows) = (work.compute + compute, work.rows + rows);
    }

    /// Returns what is not told yet.
    pub(crate) fn tell(&self) -> Vec<Spent> {
        let mut jobs = lock(&self.0);
        let told = std::iter::from_fn(|| jobs.pop_first()).take(JOBS_MAX);
        told.map(|(job, work)| Spent { job, compute_us: work.compute.as_micros() as u64, rows: work.rows }).collect()
    }
}

/// Not told yet, by job: bytes, and nanoseconds of processor time.
#[derive(Debug, Default)]
pub(crate) struct SentBytes(Mutex<BTreeMap<u64, (u64, u64)>>);

impl SentBytes {
    pub(crate) fn add(&self, job: u64, bytes: u64, nanos: u64) {
        let mut jobs = lock(&self.0);
        let sent = jobs.entry(job).or_default();
        *sent = (sent.0 + bytes, sent.1 + nanos);
    }

    /// Returns what is not told yet.
    pub(crate) fn tell(&self) -> Vec<Sent> {
        let mut jobs = lock(&self.0);
        let told = std::iter::from_fn(|| jobs.pop_first()).take(JOBS_MAX);
        told.map(|(job, (bytes, nanos))| Sent { job, bytes, nanos }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_told_once_and_reports_are_bounded() {
        let sent = SentBytes::default();
        (0..300).for_each(|job| sent.add(job, 1000, 20));
        sent.add(7, 500, 30);
        let first = sent.tell();
        assert_eq!((first.len(), first[7]), (JOBS_MAX, Sent { job: 7, bytes: 1500, nanos: 50 }));
        assert_eq!((sent.tell().len(), sent.tell().len()), (44, 0));
    }

    #[test]
    fn what_was_spent_is_told_once_and_reports_are_bounded() {
        let spent = SpentTime::default();
        (0..300).for_each(|job| spent.add(job, Duration::from_micros(2), 1));
        spent.add(7, Duration::from_micros(3), 0);
        let first = spent.tell();
        assert_eq!((first.len(), first[7]), (JOBS_MAX, Spent { job: 7, compute_us: 5, rows: 1 }));
        assert_eq!((spent.tell().len(), spent.tell().len()), (44, 0));
    }
}
