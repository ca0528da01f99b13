//! The scaling policy over random jobs: how near it comes to the best, how soon, and how calm it stays.
//!
//! Jobs run in the simulator (`simulate`): a trainer, workers of whose time only a part reaches it, figures with noise,
//! and the dispatcher's windows.

use crate::common::{Imagined, SEED};
use forebay_policy::placement::Prices;
use forebay_policy_lab::simulate::{Change, Job};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const WORKERS_MAX: u32 = 100;
impl Imagined {
    fn demand(&self) -> f64 {
        1.0 / self.job.step
    }

    fn capacity(&self, workers: u32) -> f64 {
        self.model().capacity(self.job.on_workers(workers))
    }

    /// Returns the price of a batch.
    fn cost(&self, workers: u32) -> f64 {
        let prices = Prices::default();
        let delivered = self.demand().min(self.capacity(workers));
        (prices.trainer + f64::from(workers) * prices.worker) / delivered
    }

    fn best(&self) -> u32 {
        (1..=WORKERS_MAX).min_by(|a, b| self.cost(*a).total_cmp(&self.cost(*b))).expect("some")
    }

    /// Returns whether the price is within 5 % of the best number's, or the number is one worker away from it.
    fn is_good(&self, workers: u32) -> bool {
        let best = self.best();
        workers.abs_diff(best) <= 1 || self.cost(workers) <= 1.05 * self.cost(best)
    }

    /// Runs the job for so many windows, if they are as long as possible; returns the requested placements.
    fn changes_in(&self, windows: u64, seed: u64) -> Vec<Change> {
        let batches = (self.demand() * 6.0 * windows as f64).ceil() as u64;
        let outcome = self.run(batches, WORKERS_MAX, seed);
        assert!(outcome.windows >= windows, "{outcome:?}");
        outcome.changes
    }
}

/// Returns the last requested number by then, and those after it.
fn at(changes: &[Change], by: impl Fn(&Change) -> bool) -> (u32, Vec<u32>) {
    let asked: Vec<_> = changes.iter().map(|change| change.to.workers).collect();
    let last = changes.iter().filter(|change| by(change)).count() - 1;
    (asked[last], asked[last..].to_vec())
}

fn models(noise: f64, demand: std::ops::Range<f64>) -> impl Strategy<Value = Imagined> {
    let parts = (demand, 0.1f64..60.0, prop::sample::select(vec![1u32, 2, 4, 8]), 0.6f64..1.0);
    parts.prop_map(move |(demand, load, threads, efficiency)| {
        let cost = load * f64::from(threads) / demand;
        let job = Job { efficiency, noise, ahead: 0, ..Job::new("job", 1.0 / demand, cost, 1) };
        Imagined { job, threads }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn three_probes_and_fifteen_windows_find_what_is_near_the_best(model in models(0.01, 0.5..300.0), seed: u64) {
        let changes = model.changes_in(115, seed);
        let asked = changes.iter().filter(|change| change.window <= 15).count();
        prop_assert!(asked <= 2 + 3, "the first number and three probes: {changes:?}");
        let (workers, _) = at(&changes, |change| change.window <= 15);
        prop_assert!(model.is_good(workers), "{changes:?}, and {} would be best", model.best());
        let (workers, _) = at(&changes, |change| change.window <= 115);
        let later = changes.iter().filter(|change| (16..=115).contains(&change.window)).count();
        prop_assert!(model.is_good(workers) && later <= 2, "{changes:?}; {} would be best", model.best());
    }

    #[test]
    fn a_trainer_that_is_three_times_as_fast_or_as_slow_is_followed_within_fifteen_seconds(
        mut model in models(0.02, 15.0..300.0), seed: u64, faster: bool, when in 40.0f64..120.0,
    ) {
        let factor = if faster { 3.0 } else { 1.0 / 3.0 };
        model.job.then = vec![(when, model.job.step / factor)];
        let changes = model.changes_in(100, seed);
        let needed = model.demand() * factor / model.capacity(1);
        let (before, _) = at(&changes, |change| change.at_s < when);
        let (workers, _) = at(&changes, |change| change.at_s <= when + 15.0);
        let near = (f64::from(workers) - needed).abs() <= 1.6 + 0.1 * needed;
        // Or one away from it, as everywhere else.
        let is_all = needed > f64::from(WORKERS_MAX) && workers + 1 >= WORKERS_MAX;
        prop_assert!(near || is_all, "{before} became {workers}, and it takes {needed}: {changes:?}");
    }

    #[test]
    fn noise_of_twenty_percent_makes_it_change_its_mind_no_more_than_it_must(
        model in models(0.2, 0.5..300.0), seed: u64,
    ) {
        let changes = model.changes_in(340, seed);
        let until: Vec<_> = changes.into_iter().filter(|change| change.window <= 340).collect();
        let (_, asked) = at(&until, |change| change.window <= 40);
        prop_assert!(asked.len() <= 6, "{asked:?}");
        for (i, workers) in asked.iter().enumerate() {
            let returns = asked[i + 1..].iter().filter(|other| *other == workers).count();
            prop_assert!(returns <= 1, "it comes back to {workers} again and again: {asked:?}");
        }
    }
}
