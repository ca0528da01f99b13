//! The measurements of a process about its pipelines with `autocache()`, and the decisions that follow from them.
//!
//! A profile outlives iterators, so a consumer that opens one iterator for each epoch measures once.
//!
//! Invariants: probes take at most one part in [`PROBE_PART`] of the time of computing, after the first few probes; a
//! process keeps at most [`PIPELINES_MAX`] profiles.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use forebay_core::{DatasetId, Result};
use forebay_policy::caching::forebay::FEW;
use forebay_policy::caching::{Choice, Decision, Observation, Previous, decide, passes_to_come};

use crate::lock::lock;

/// The most profiles that are kept; at the bound, the profiles of pipelines without an iterator are dropped.
const PIPELINES_MAX: usize = 64;
/// Probes may take one part in this many of the time of computing.
const PROBE_PART: u64 = 200;
/// How long a probe computes, in nanoseconds.
const PROBE_NANOS: f64 = 20e6;
/// The fewest and the most rows of a probe.
const PROBE_ROWS: (f64, f64) = (16.0, 1024.0);

/// The profiles of a process, by dataset id.
#[derive(Default)]
pub struct AutoCacheProfiles(Mutex<HashMap<DatasetId, Arc<Mutex<PipelineProfile>>>>);

/// The profile of one pipeline.
#[derive(Default)]
pub(crate) struct PipelineProfile {
    previous: Previous,
    decision: Option<Decision>,
    /// The time of computing, and the number of computed rows.
    work_nanos: u64,
    work_rows: u64,
    /// The time of probes, and their number since the last decision was replaced.
    probe_nanos: u64,
    probes: u32,
    /// Whether the last probe failed.
    failed: bool,
    /// The cost of a row with nothing cached, as last measured.
    row_nanos: Option<f64>,
    /// The consumers that run the pipeline now, by number.
    consumers: BTreeMap<u64, Consumer>,
    next_consumer: u64,
    /// The most passes that others were reported to have made before.
    before: f64,
}

/// A consumer of the pipeline. Places are in passes over the pipeline's rows.
#[derive(Debug, Default)]
struct Consumer {
    end: Option<f64>,
    at: f64,
    /// Its first and its last reported place, each with the time in nanoseconds.
    first: Option<(f64, u64)>,
    last: (f64, u64),
    rows: u64,
}

impl AutoCacheProfiles {
    /// Returns the profile of a pipeline.
    pub(crate) fn of(&self, pipeline: DatasetId) -> Arc<Mutex<PipelineProfile>> {
        let mut pipelines = lock(&self.0);
        if pipelines.len() >= PIPELINES_MAX && !pipelines.contains_key(&pipeline) {
            pipelines.retain(|_, profile| Arc::strong_count(profile) > 1);
        }
        match pipelines.len() < PIPELINES_MAX || pipelines.contains_key(&pipeline) {
            true => pipelines.entry(pipeline).or_default().clone(),
            // Its profile is not shared.
            false => Arc::default(),
        }
    }
}

impl PipelineProfile {
    /// Returns the current choice, and whether computed rows go to the store, too.
    pub(crate) fn choice(&self) -> (Choice, bool) {
        let decision = self.decision.as_ref();
        let stores = decision.and_then(Decision::cost).is_none_or(|cost| cost.stores);
        (decision.map_or(Choice::Compute, |decision| decision.choice), stores)
    }

    pub(crate) fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Adds a consumer; returns its number.
    pub(crate) fn join(&mut self) -> u64 {
        let number = self.next_consumer;
        self.next_consumer += 1;
        self.consumers.insert(number, Consumer::default());
        number
    }

    /// Removes a consumer.
    pub(crate) fn leave(&mut self, consumer: u64) {
        self.consumers.remove(&consumer);
    }

    /// Records after how many passes a consumer ends, if it ends, and how many passes others made before it began.
    pub(crate) fn expect(&mut self, consumer: u64, end: Option<f64>, before: f64) {
        self.before = self.before.max(before);
        self.consumers.entry(consumer).or_default().end = end;
    }

    /// Records the place of a consumer at a time, in passes.
    pub(crate) fn pass(&mut self, consumer: u64, at: f64, now: u64) {
        let consumer = self.consumers.entry(consumer).or_default();
        // A consumer that goes back starts its measurement again.
        if consumer.first.is_none_or(|(first, _)| at < first) {
            consumer.first = Some((at, now));
        }
        (consumer.at, consumer.last) = (at, (at, now));
    }

    /// Returns the expected number of further passes; `rows` is the number of rows in a pass.
    pub(crate) fn passes(&self, consumer: u64, rows: u64) -> f64 {
        let own = self.consumers.get(&consumer).map_or(0, |consumer| consumer.rows);
        let others = (self.work_rows - own.min(self.work_rows)) / rows.max(1);
        let ahead = self.consumers.values().map(|consumer| consumer.end.map(|end| end - consumer.at));
        passes_to_come(ahead, self.before.max(others as f64))
    }

    /// Returns the nanoseconds from one pass to the next, over all consumers, as [`PipelineProfile::passes`] counts
    /// them; 0 while it is not known.
    pub(crate) fn pass_nanos(&self) -> f64 {
        let rate = |consumer: &Consumer| {
            let ((from, then), (at, now)) = (consumer.first?, consumer.last);
            (at > from && now > then).then(|| (at - from) / (now - then) as f64)
        };
        let rates: f64 = self.consumers.values().filter_map(rate).sum();
        if rates > 0.0 { rates.recip() } else { 0.0 }
    }

    /// Records the time that rows of a consumer took.
    pub(crate) fn record_work(&mut self, consumer: u64, rows: usize, nanos: u64) {
        self.work_rows += rows as u64;
        self.work_nanos += nanos;
        self.consumers.entry(consumer).or_default().rows += rows as u64;
    }

    /// Returns the number of rows to measure, if a probe is due: while nothing is chosen, and again when many more
    /// passes are expected than at the last decision.
    pub(crate) fn due(&mut self, passes: f64, guessed: bool) -> Option<usize> {
        let is_over_share = self.probe_nanos.saturating_mul(PROBE_PART) > self.work_nanos;
        let is_overtaken = self.previous.is_overtaken(passes, guessed);
        if self.probes >= FEW && self.decision.is_some() && !self.failed && is_overtaken {
            self.probes = 0;
        }
        if self.work_rows == 0 || (self.probes >= FEW && is_over_share) {
            return None;
        }
        let row = self.row_nanos.unwrap_or(self.work_nanos as f64 / self.work_rows as f64);
        Some((PROBE_NANOS / row.max(1.0)).clamp(PROBE_ROWS.0, PROBE_ROWS.1) as usize)
    }

    /// Decides on the observation of a probe. A probe that failed only counts its time.
    pub(crate) fn decide(&mut self, seen: Result<Observation>, nanos: u64) {
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

#[cfg(test)]
mod tests {
    use forebay_policy::caching::{PASSES_UNKNOWN, Rent, Tiers};

    use super::*;

    #[test]
    fn probes_take_a_bounded_share_of_the_time_and_pipelines_are_bounded() {
        let mut profile = PipelineProfile::default();
        let consumer = profile.join();
        assert_eq!(profile.due(1.0, false), None, "nothing is known");
        profile.record_work(consumer, 100, 100_000_000);
        assert_eq!(profile.due(1.0, false), Some(20));
        for _ in 0..FEW {
            profile.decide(Err(forebay_core::Error::internal("no figures")), 40_000_000);
        }
        assert_eq!(profile.due(1.0, false), None, "it had more than its share");
        profile.record_work(consumer, 24_000, 24_000_000_000);
        assert_eq!(profile.due(1.0, false), Some(20));
        let profiles = AutoCacheProfiles::default();
        let held: Vec<_> = (0..200u8).map(|n| profiles.of(DatasetId([n; 32]))).collect();
        assert_eq!(lock(&profiles.0).len(), PIPELINES_MAX);
        drop(held);
        profiles.of(DatasetId([201; 32]));
        assert_eq!(lock(&profiles.0).len(), 1);
    }

    fn seen(passes: f64) -> Observation {
        let (room, rent) = (Tiers::default(), Rent::default());
        Observation { rows: 100, passes, pass_nanos: 0.0, compute: 1e6, places: Vec::new(), room, rent, guessed: false }
    }

    #[test]
    fn further_passes_are_those_of_all_consumers_and_as_many_again_as_others_made() {
        let mut profile = PipelineProfile::default();
        let one = profile.join();
        assert_eq!(profile.passes(one, 100), PASSES_UNKNOWN, "its end is not known");
        profile.expect(one, Some(3.0), 0.0);
        profile.pass(one, 0.5, 7_000);
        assert_eq!((profile.passes(one, 100), profile.pass_nanos()), (2.5, 0.0));
        profile.pass(one, 1.0, 9_000);
        assert_eq!((profile.passes(one, 100), profile.pass_nanos()), (2.0, 4_000.0));
        profile.record_work(one, 250, 1);
        let other = profile.join();
        profile.expect(other, Some(1.0), 1.0);
        assert_eq!(profile.passes(one, 100), 2.0 + 1.0 + 1.0, "its own rows are no passes of others");
        assert_eq!(profile.passes(other, 100), 2.0 + 1.0 + 2.0, "whole passes");
        profile.leave(one);
        assert_eq!(profile.passes(other, 100), 1.0 + 2.0);
        profile.pass(other, 0.25, 100_000);
        assert_eq!(profile.passes(other, 100), 0.75 + 2.0);
    }

    #[test]
    fn a_store_is_paid_for_the_time_that_all_consumers_take_together() {
        let paid = |count: u64| {
            let mut profile = PipelineProfile::default();
            let consumers: Vec<u64> = (0..count).map(|_| profile.join()).collect();
            for &consumer in &consumers {
                profile.expect(consumer, Some(3.0), 0.0);
                profile.pass(consumer, 0.0, 1_000);
                profile.pass(consumer, 0.5, 5_000);
            }
            profile.passes(consumers[0], 100) * profile.pass_nanos()
        };
        // Two and a half passes, of 8,000 each, which the consumers make at the same time.
        assert_eq!([1, 2, 4].map(paid), [20_000.0; 3]);
    }

    #[test]
    fn a_probe_is_due_at_once_where_more_passes_are_expected() {
        let mut profile = PipelineProfile::default();
        let consumer = profile.join();
        profile.record_work(consumer, 100, 100_000_000);
        let measure = |profile: &mut PipelineProfile, passes: f64| {
            for _ in 0..100 {
                if profile.due(passes, false).is_some() {
                    profile.decide(Ok(seen(passes)), 40_000_000);
                }
            }
            profile.probes
        };
        assert_eq!(measure(&mut profile, 1.0), FEW);
        assert_eq!((profile.due(1.2, false), measure(&mut profile, 1.0)), (None, FEW));
        assert!(profile.due(2.0, false).is_some());
        assert_eq!((measure(&mut profile, 2.0), profile.due(2.0, false)), (FEW, None), "and not for ever");
    }
}
