//! The scaling policy over random jobs: how near it comes to the best, how soon, and how calm it stays.
//!
//! A job's model: a trainer that takes `demand` batches/s, workers that make `supply` each, of which only a part reaches the
//! trainer, and figures that are off by some noise. Windows are 2 s long, as the dispatcher's.

use forebay_core::Ticks;
use forebay_policy::scaling::{Limits, Observation, Policy, Previous, decide};
use proptest::prelude::*;

const WINDOW_S: u64 = 2;
/// Prices of the trainer's machine and of a worker, for an hour, as Pecan has them.
const TRAINER: f64 = 4.96;
const WORKER: f64 = 0.427;
const WORKERS_MAX: u32 = 100;

#[derive(Debug, Clone, Copy)]
struct Job {
    demand: f64,
    /// Seconds of one thread for a batch.
    compute: f64,
    threads: u32,
    /// What of a worker's time reaches the trainer.
    efficiency: f64,
    /// What a figure may be off by, either way.
    noise: f64,
}

impl Job {
    fn supply(&self) -> f64 {
        self.efficiency * f64::from(self.threads) / self.compute
    }

    fn delivered(&self, workers: u32) -> f64 {
        self.demand.min(f64::from(workers) * self.supply())
    }

    /// What a batch costs.
    fn cost(&self, workers: u32) -> f64 {
        (TRAINER + f64::from(workers) * WORKER) / self.delivered(workers)
    }

    fn best(&self) -> u32 {
        (1..=WORKERS_MAX).min_by(|a, b| self.cost(*a).total_cmp(&self.cost(*b))).expect("some")
    }

    fn observe(&self, window: u64, workers: u32, dice: &mut impl FnMut() -> f64) -> Observation {
        let delivered = self.delivered(workers);
        let mut noisy = |x: f64| x * (1.0 + self.noise * (2.0 * dice() - 1.0));
        Observation {
            at: Ticks(window * WINDOW_S * 1000),
            workers,
            local: 0,
            steady: true,
            limits: Limits { min: 1, max: WORKERS_MAX },
            threads: f64::from(self.threads),
            batches: (delivered * WINDOW_S as f64) as u64,
            delivered: noisy(delivered),
            demand: Some(noisy(self.demand)),
            waited: noisy(1.0 - delivered / self.demand).min(1.0),
            compute: Some(noisy(self.compute)),
            busy: None,
            ahead: None,
        }
    }
}

/// A job, its policy, and the workers that it asked for.
struct Run {
    job: Job,
    previous: Previous,
    workers: u32,
    window: u64,
    state: u64,
}

impl Run {
    fn new(job: Job, seed: u64) -> Self {
        Self { job, previous: Policy::Forebay.start(), workers: 1, window: 0, state: seed | 1 }
    }

    /// Runs so many windows; returns the numbers of workers that were asked for, one after the other.
    fn windows(&mut self, count: u64) -> Vec<u32> {
        let mut asked = vec![self.workers];
        for _ in 0..count {
            let state = &mut self.state;
            let mut dice = || {
                // xorshift64* (Vigna, 2016)
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
            };
            let seen = self.job.observe(self.window, self.workers, &mut dice);
            let (decision, next) = decide(&seen, &self.previous);
            (self.previous, self.workers, self.window) = (next, decision.workers, self.window + 1);
            if asked.last() != Some(&self.workers) {
                asked.push(self.workers);
            }
        }
        asked
    }

    /// Within 5 % of what the best number costs, or one worker away from it.
    fn is_good(&self) -> bool {
        let best = self.job.best();
        self.workers.abs_diff(best) <= 1 || self.job.cost(self.workers) <= 1.05 * self.job.cost(best)
    }
}

fn jobs(noise: f64) -> impl Strategy<Value = Job> {
    let parts = (0.5f64..300.0, 0.1f64..60.0, prop::sample::select(vec![1u32, 2, 4, 8]), 0.6f64..1.0);
    parts.prop_map(move |(demand, load, threads, efficiency)| {
        let compute = load * f64::from(threads) / demand;
        Job { demand, compute, threads, efficiency, noise }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn three_probes_and_thirty_seconds_find_what_is_near_the_best(job in jobs(0.01), seed: u64) {
        let mut run = Run::new(job, seed);
        let asked = run.windows(15);
        prop_assert!(asked.len() <= 2 + 3, "the first number and three probes: {asked:?}");
        prop_assert!(run.is_good(), "{asked:?}, and {} would be best", job.best());
        let later = run.windows(100);
        prop_assert!(run.is_good() && later.len() <= 3, "{asked:?}, then {later:?}; {} would be best", job.best());
    }

    #[test]
    fn a_trainer_that_is_three_times_as_fast_or_as_slow_is_followed_within_fifteen_seconds(
        job in jobs(0.02), seed: u64, faster: bool, settled in 20u64..60,
    ) {
        let mut run = Run::new(job, seed);
        run.windows(settled);
        let before = run.workers;
        let factor = if faster { 3.0 } else { 1.0 / 3.0 };
        run.job.demand *= factor;
        let needed = run.job.demand / run.job.supply();
        run.windows(15 / WINDOW_S);
        let near = |workers: u32| (f64::from(workers) - needed).abs() <= 1.6 + 0.1 * needed;
        let most = f64::from(WORKERS_MAX);
        prop_assert!(near(run.workers) || needed > most && run.workers == WORKERS_MAX, "{before} became {}, and it takes {needed}", run.workers);
    }

    #[test]
    fn noise_of_twenty_percent_makes_it_change_its_mind_no_more_than_it_must(job in jobs(0.2), seed: u64) {
        let mut run = Run::new(job, seed);
        run.windows(40);
        let asked = run.windows(300);
        prop_assert!(asked.len() <= 6, "{asked:?}");
        for (i, workers) in asked.iter().enumerate() {
            let returns = asked[i + 1..].iter().filter(|other| *other == workers).count();
            prop_assert!(returns <= 1, "it comes back to {workers} again and again: {asked:?}");
        }
    }
}
