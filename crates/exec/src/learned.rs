//! What a process found out of its pipelines with `autocache()`: what was measured so far, and what was decided on that.
//!
//! It outlives the iterators: whoever reads epoch by epoch measures once. Invariants: measuring takes no more than one part in
//! [`PROBE_PART`] of the time that computing takes, after the first few times; at most [`PIPELINES_MAX`] pipelines are remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{DatasetId, Result};
use forebay_policy::caching::forebay::FEW;
use forebay_policy::caching::{Choice, Decision, Observation, Previous, decide};

/// Pipelines that are remembered; one more, and those that nobody runs are forgotten.
const PIPELINES_MAX: usize = 64;
/// Measuring may take one part in so many of the time.
const PROBE_PART: u64 = 200;
/// How long it takes to compute the rows that are measured at once, in nanoseconds,
const PROBE_NANOS: f64 = 20e6;
/// and how many these are at least and at most.
const PROBE_ROWS: (f64, f64) = (16.0, 1024.0);

/// The pipelines of a process, by their name.
#[derive(Default)]
pub struct Learned(Mutex<HashMap<DatasetId, Arc<Mutex<Pipeline>>>>);

/// One of them.
#[derive(Default)]
pub(crate) struct Pipeline {
    previous: Previous,
    decision: Option<Decision>,
    /// What computing took, and how many rows came of it.
    work_nanos: u64,
    work_rows: u64,
    /// What measuring took, and how often it was done.
    probe_nanos: u64,
    probes: u32,
    /// What a row costs with nothing kept, as last measured.
    row_nanos: Option<f64>,
}

impl Learned {
    /// Returns what is known of a pipeline.
    pub(crate) fn of(&self, pipeline: DatasetId) -> Arc<Mutex<Pipeline>> {
        let mut pipelines = lock(&self.0);
        if pipelines.len() >= PIPELINES_MAX && !pipelines.contains_key(&pipeline) {
            pipelines.retain(|_, known| Arc::strong_count(known) > 1);
        }
        match pipelines.len() < PIPELINES_MAX || pipelines.contains_key(&pipeline) {
            true => pipelines.entry(pipeline).or_default().clone(),
            // It learns for itself.
            false => Arc::default(),
        }
    }
}

impl Pipeline {
    /// Returns what is kept now.
    pub(crate) fn choice(&self) -> Choice {
        self.decision.as_ref().map_or(Choice::Compute, |decision| decision.choice)
    }

    pub(crate) fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Notes what rows took to come.
    pub(crate) fn work(&mut self, rows: usize, nanos: u64) {
        self.work_rows += rows as u64;
        self.work_nanos += nanos;
    }

    /// Returns how many rows are to be measured, if it is time.
    pub(crate) fn due(&self) -> Option<usize> {
        let had_its_share = self.probe_nanos.saturating_mul(PROBE_PART) > self.work_nanos;
        if self.work_rows == 0 || (self.probes >= FEW && had_its_share) {
            return None;
        }
        let row = self.row_nanos.unwrap_or(self.work_nanos as f64 / self.work_rows as f64);
        Some((PROBE_NANOS / row.max(1.0)).clamp(PROBE_ROWS.0, PROBE_ROWS.1) as usize)
    }

    /// Decides on what was measured. What could not be measured only took its time.
    pub(crate) fn take(&mut self, seen: Result<Observation>, nanos: u64) {
        self.probes += 1;
        self.probe_nanos += nanos;
        if let Ok(seen) = seen {
            self.row_nanos = Some(seen.compute);
            let (decision, previous) = decide(&seen, &self.previous);
            (self.decision, self.previous) = (Some(decision), previous);
        }
    }
}

/// Plain data that is consistent between statements: a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_has_its_share_of_the_time_and_pipelines_are_bounded() {
        let mut pipeline = Pipeline::default();
        assert_eq!(pipeline.due(), None, "nothing is known");
        pipeline.work(100, 100_000_000);
        assert_eq!(pipeline.due(), Some(20));
        for _ in 0..FEW {
            pipeline.take(Err(forebay_core::Error::internal("no figures")), 40_000_000);
        }
        assert_eq!(pipeline.due(), None, "it had more than its share");
        pipeline.work(24_000, 24_000_000_000);
        assert_eq!(pipeline.due(), Some(20));
        let learned = Learned::default();
        let held: Vec<_> = (0..200u8).map(|n| learned.of(DatasetId([n; 32]))).collect();
        assert_eq!(lock(&learned.0).len(), PIPELINES_MAX);
        drop(held);
        learned.of(DatasetId([201; 32]));
        assert_eq!(lock(&learned.0).len(), 1);
    }
}
