//! What a process found out of its pipelines with `autocache()`: what was measured so far, and what was decided on that.
//!
//! It outlives the iterators: whoever reads epoch by epoch measures once. Invariants: measuring takes no more than one part in
//! [`PROBE_PART`] of the time that computing takes, after the first few times; at most [`PIPELINES_MAX`] pipelines are remembered.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{DatasetId, Result};
use forebay_policy::caching::forebay::FEW;
use forebay_policy::caching::{Choice, Decision, Observation, Previous, decide, passes_to_come};

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
    /// Whether the last time brought no figures.
    failed: bool,
    /// What a row costs with nothing kept, as last measured.
    row_nanos: Option<f64>,
    /// Those that run it now, by their numbers.
    readers: BTreeMap<u64, Reader>,
    next_reader: u64,
    /// The most passes that others were said to have made before.
    before: f64,
}

/// Somebody who runs a pipeline: how far it has come, and where it ends. In passes over the pipeline's rows.
#[derive(Debug, Default)]
struct Reader {
    end: Option<f64>,
    at: f64,
    /// Where it was when it was first heard of and last, and the time then, in nanoseconds.
    began: Option<(f64, u64)>,
    heard: (f64, u64),
    rows: u64,
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
    /// Returns what is kept now, and whether in a store, too.
    pub(crate) fn choice(&self) -> (Choice, bool) {
        let decision = self.decision.as_ref();
        let stores = decision.and_then(Decision::cost).is_none_or(|cost| cost.stores);
        (decision.map_or(Choice::Compute, |decision| decision.choice), stores)
    }

    pub(crate) fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Somebody runs it from now on; returns who.
    pub(crate) fn join(&mut self) -> u64 {
        let number = self.next_reader;
        self.next_reader += 1;
        self.readers.insert(number, Reader::default());
        number
    }

    /// Whoever joined does so no more.
    pub(crate) fn leave(&mut self, reader: u64) {
        self.readers.remove(&reader);
    }

    /// A reader says after how many passes it ends, if it does, and how many others made before it began.
    pub(crate) fn expect(&mut self, reader: u64, end: Option<f64>, before: f64) {
        self.before = self.before.max(before);
        self.readers.entry(reader).or_default().end = end;
    }

    /// Notes where a reader is at a time, in passes.
    pub(crate) fn pass(&mut self, reader: u64, at: f64, now: u64) {
        let reader = self.readers.entry(reader).or_default();
        // One that goes back begins anew.
        if reader.began.is_none_or(|(began, _)| at < began) {
            reader.began = Some((at, now));
        }
        (reader.at, reader.heard) = (at, (at, now));
    }

    /// Returns the passes that are to come; `rows` is how many rows a pass has.
    pub(crate) fn passes(&self, reader: u64, rows: u64) -> f64 {
        let own = self.readers.get(&reader).map_or(0, |reader| reader.rows);
        let others = (self.work_rows - own.min(self.work_rows)) / rows.max(1);
        let ahead = self.readers.values().map(|reader| reader.end.map(|end| end - reader.at));
        passes_to_come(ahead, self.before.max(others as f64))
    }

    /// Returns after how many nanoseconds by the clock another pass is made, whoever makes it; 0 while that is not known. Passes to come
    /// are those of all readers, too.
    pub(crate) fn pass_nanos(&self) -> f64 {
        let rate = |reader: &Reader| {
            let ((began, then), (at, now)) = (reader.began?, reader.heard);
            (at > began && now > then).then(|| (at - began) / (now - then) as f64)
        };
        let rates: f64 = self.readers.values().filter_map(rate).sum();
        if rates > 0.0 { rates.recip() } else { 0.0 }
    }

    /// Notes what rows of a reader took to come.
    pub(crate) fn work(&mut self, reader: u64, rows: usize, nanos: u64) {
        self.work_rows += rows as u64;
        self.work_nanos += nanos;
        self.readers.entry(reader).or_default().rows += rows as u64;
    }

    /// Returns how many rows are to be measured, if it is time: while nothing is chosen, and once more where so many passes are to come
    /// as nobody thought.
    pub(crate) fn due(&mut self, passes: f64, guessed: bool) -> Option<usize> {
        let had_its_share = self.probe_nanos.saturating_mul(PROBE_PART) > self.work_nanos;
        let is_overtaken = self.previous.is_overtaken(passes, guessed);
        if self.probes >= FEW && self.decision.is_some() && !self.failed && is_overtaken {
            self.probes = 0;
        }
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
        self.failed = seen.is_err();
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
    use forebay_policy::caching::{PASSES_UNKNOWN, Rent, Tiers};

    use super::*;

    #[test]
    fn measuring_has_its_share_of_the_time_and_pipelines_are_bounded() {
        let mut pipeline = Pipeline::default();
        let reader = pipeline.join();
        assert_eq!(pipeline.due(1.0, false), None, "nothing is known");
        pipeline.work(reader, 100, 100_000_000);
        assert_eq!(pipeline.due(1.0, false), Some(20));
        for _ in 0..FEW {
            pipeline.take(Err(forebay_core::Error::internal("no figures")), 40_000_000);
        }
        assert_eq!(pipeline.due(1.0, false), None, "it had more than its share");
        pipeline.work(reader, 24_000, 24_000_000_000);
        assert_eq!(pipeline.due(1.0, false), Some(20));
        let learned = Learned::default();
        let held: Vec<_> = (0..200u8).map(|n| learned.of(DatasetId([n; 32]))).collect();
        assert_eq!(lock(&learned.0).len(), PIPELINES_MAX);
        drop(held);
        learned.of(DatasetId([201; 32]));
        assert_eq!(lock(&learned.0).len(), 1);
    }

    fn seen(passes: f64) -> Observation {
        let (room, rent) = (Tiers::default(), Rent::default());
        Observation { rows: 100, passes, pass_nanos: 0.0, compute: 1e6, places: Vec::new(), room, rent, guessed: false }
    }

    #[test]
    fn passes_are_those_of_all_that_run_and_as_many_again_as_others_made() {
        let mut pipeline = Pipeline::default();
        let one = pipeline.join();
        assert_eq!(pipeline.passes(one, 100), PASSES_UNKNOWN, "it did not say");
        pipeline.expect(one, Some(3.0), 0.0);
        pipeline.pass(one, 0.5, 7_000);
        assert_eq!((pipeline.passes(one, 100), pipeline.pass_nanos()), (2.5, 0.0));
        pipeline.pass(one, 1.0, 9_000);
        assert_eq!((pipeline.passes(one, 100), pipeline.pass_nanos()), (2.0, 4_000.0));
        pipeline.work(one, 250, 1);
        let other = pipeline.join();
        pipeline.expect(other, Some(1.0), 1.0);
        assert_eq!(pipeline.passes(one, 100), 2.0 + 1.0 + 1.0, "what it read itself says nothing of others");
        assert_eq!(pipeline.passes(other, 100), 2.0 + 1.0 + 2.0, "whole passes");
        pipeline.leave(one);
        assert_eq!(pipeline.passes(other, 100), 1.0 + 2.0);
        pipeline.pass(other, 0.25, 100_000);
        assert_eq!(pipeline.passes(other, 100), 0.75 + 2.0);
    }

    #[test]
    fn a_store_is_paid_for_the_time_that_all_readers_take_together() {
        let paid = |count: u64| {
            let mut pipeline = Pipeline::default();
            let readers: Vec<u64> = (0..count).map(|_| pipeline.join()).collect();
            for &reader in &readers {
                pipeline.expect(reader, Some(3.0), 0.0);
                pipeline.pass(reader, 0.0, 1_000);
                pipeline.pass(reader, 0.5, 5_000);
            }
            pipeline.passes(readers[0], 100) * pipeline.pass_nanos()
        };
        // Two and a half passes, of 8,000 each, which they make at the same time.
        assert_eq!([1, 2, 4].map(paid), [20_000.0; 3]);
    }

    #[test]
    fn where_more_passes_are_to_come_it_is_measured_at_once() {
        let mut pipeline = Pipeline::default();
        let reader = pipeline.join();
        pipeline.work(reader, 100, 100_000_000);
        let measure = |pipeline: &mut Pipeline, passes: f64| {
            for _ in 0..100 {
                if pipeline.due(passes, false).is_some() {
                    pipeline.take(Ok(seen(passes)), 40_000_000);
                }
            }
            pipeline.probes
        };
        assert_eq!(measure(&mut pipeline, 1.0), FEW);
        assert_eq!((pipeline.due(1.2, false), measure(&mut pipeline, 1.0)), (None, FEW));
        assert!(pipeline.due(2.0, false).is_some());
        assert_eq!((measure(&mut pipeline, 2.0), pipeline.due(2.0, false)), (FEW, None), "and not for ever");
    }
}
