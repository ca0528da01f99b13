//! The resources that each job has used on this worker since the last report to the dispatcher: compute time and rows;
//! bytes sent and the processor time of sending them.
//!
//! Bounds: the jobs that have used any. A report names [`JOBS_MAX`] jobs; the others follow in the next reports.

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

/// Compute time and rows that are not reported yet, by job.
#[derive(Debug, Default)]
pub(crate) struct SpentTime(Mutex<BTreeMap<u64, Work>>);

impl SpentTime {
    pub(crate) fn add(&self, job: u64, compute: Duration, rows: u64) {
        let mut jobs = lock(&self.0);
        let work = jobs.entry(job).or_default();
        (work.compute, work.rows) = (work.compute + compute, work.rows + rows);
    }

    /// Takes the amounts that are not reported yet.
    pub(crate) fn take_unreported(&self) -> Vec<Spent> {
        let mut jobs = lock(&self.0);
        let taken = std::iter::from_fn(|| jobs.pop_first()).take(JOBS_MAX);
        taken.map(|(job, work)| Spent { job, compute_us: work.compute.as_micros() as u64, rows: work.rows }).collect()
    }
}

/// Bytes sent, and nanoseconds of processor time, that are not reported yet, by job.
#[derive(Debug, Default)]
pub(crate) struct SentBytes(Mutex<BTreeMap<u64, (u64, u64)>>);

impl SentBytes {
    pub(crate) fn add(&self, job: u64, bytes: u64, nanos: u64) {
        let mut jobs = lock(&self.0);
        let sent = jobs.entry(job).or_default();
        *sent = (sent.0 + bytes, sent.1 + nanos);
    }

    /// Takes the amounts that are not reported yet.
    pub(crate) fn take_unreported(&self) -> Vec<Sent> {
        let mut jobs = lock(&self.0);
        let taken = std::iter::from_fn(|| jobs.pop_first()).take(JOBS_MAX);
        taken.map(|(job, (bytes, nanos))| Sent { job, bytes, nanos }).collect()
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
        let first = sent.take_unreported();
        assert_eq!((first.len(), first[7]), (JOBS_MAX, Sent { job: 7, bytes: 1500, nanos: 50 }));
        assert_eq!((sent.take_unreported().len(), sent.take_unreported().len()), (44, 0));
    }

    #[test]
    fn what_was_spent_is_told_once_and_reports_are_bounded() {
        let spent = SpentTime::default();
        (0..300).for_each(|job| spent.add(job, Duration::from_micros(2), 1));
        spent.add(7, Duration::from_micros(3), 0);
        let first = spent.take_unreported();
        assert_eq!((first.len(), first[7]), (JOBS_MAX, Spent { job: 7, compute_us: 5, rows: 1 }));
        assert_eq!((spent.take_unreported().len(), spent.take_unreported().len()), (44, 0));
    }
}
