//! A job that runs: what its trainer took and waited for, what its workers made, and its windows.
//!
//! Invariant: rates are constant between two calls of [`Live::advance`], so everything is added up exactly, however long that is.

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, SampleId, Seed, Ticks};

use super::Job;
use crate::scaling::{Limits, Observation, window};

/// What rounding alone takes off a sum of times or batches.
const ROUNDING: f64 = 1e-6;

/// Sums since the job began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// Batches that the trainer took.
    pub(super) taken: f64,
    /// Seconds that it waited.
    pub(super) waited: f64,
    /// Batches that the workers made.
    made: f64,
    /// Batches that were ahead, times seconds.
    ahead: f64,
    /// Workers, times seconds.
    crew: f64,
}

/// A job at a moment.
#[derive(Debug)]
pub(super) struct Live<'a> {
    job: &'a Job,
    threads: u32,
    /// Names the noise of its figures.
    key: u64,
    now: f64,
    step: f64,
    workers: u32,
    buffer: f64,
    sums: Sums,
    /// When the window began, and the sums by then.
    began: (f64, Sums),
    /// The fewest workers in the window, and whether there were others.
    least: u32,
    unsteady: bool,
    windows: u64,
}

impl<'a> Live<'a> {
    /// Begins a job, without workers. `index` is its place among the jobs.
    pub(super) fn new(job: &'a Job, index: usize, threads: u32, seed: u64) -> Self {
        Self {
            job,
            threads,
            key: op_key(Seed(seed), Epoch(0), index as u64),
            now: job.begins,
            step: job.step,
            workers: 0,
            buffer: 0.0,
            sums: Sums::default(),
            began: (job.begins, Sums::default()),
            least: 0,
            unsteady: false,
            windows: 0,
        }
    }

    pub(super) fn job(&self) -> &'a Job {
        self.job
    }

    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    /// Windows that have ended.
    pub(super) fn windows(&self) -> u64 {
        self.windows
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, now: f64) {
        let lasted = (now - self.now).max(0.0);
        self.now = now;
        let (made, demand) = self.rates();
        let filling = self.until_level().min(lasted);
        let level = (self.buffer + (made - demand) * filling).clamp(0.0, f64::from(self.job.ahead));
        let rest = lasted - filling;
        let slower = made.min(demand);
        self.sums.taken += demand * filling + slower * rest;
        self.sums.made += made * filling + slower * rest;
        self.sums.waited += rest * (1.0 - slower / demand);
        self.sums.ahead += (self.buffer + level) / 2.0 * filling + level * rest;
        self.sums.crew += f64::from(self.workers) * lasted;
        self.buffer = level;
    }

    /// Sets what a step takes, from now on.
    pub(super) fn set_step(&mut self, now: f64, step: f64) {
        self.advance(now);
        self.step = step;
    }

    /// Sets how many workers compute for it, from now on.
    pub(super) fn set_workers(&mut self, now: f64, workers: u32) {
        self.advance(now);
        self.workers = workers;
        if now <= self.began.0 {
            self.least = workers;
            return;
        }
        self.unsteady = true;
        self.least = self.least.min(workers);
    }

    /// Returns when its last batch is taken, if nothing changes; `None` is never.
    pub(super) fn ends(&self) -> Option<f64> {
        let left = (self.job.batches as f64 - self.sums.taken).max(0.0);
        let (made, demand) = self.rates();
        let filling = self.until_level();
        if left <= demand * filling {
            return Some(self.now + left / demand);
        }
        let slower = made.min(demand);
        (slower > 0.0).then(|| self.now + filling + (left - demand * filling) / slower)
    }

    /// Ends the window at this moment, if it has lasted long enough, and begins the next one.
    pub(super) fn observe(&mut self, limits: Limits) -> Option<Observation> {
        let (began, before) = self.began;
        let seconds = self.now - began;
        let whole = |taken: f64| (taken + ROUNDING).floor() as u64;
        let batches = whole(self.sums.taken) - whole(before.taken);
        if seconds + ROUNDING < window::lasts(batches).as_secs_f64() {
            return None;
        }
        let sum = |of: fn(&Sums) -> f64| of(&self.sums) - of(&before);
        let (taken, waited) = (sum(|s| s.taken), sum(|s| s.waited));
        let mut dice = SampleRng::new(self.key, SampleId(self.windows));
        let noise = self.job.noise;
        let mut noisy = |value: f64| value * (1.0 + dice.uniform(-noise, noise));
        let all_threads = sum(|s| s.crew) * f64::from(self.threads);
        let seen = Observation {
            at: Ticks((self.now * 1000.0) as u64),
            workers: self.least,
            local: 0,
            steady: !self.unsteady,
            limits,
            threads: f64::from(self.threads),
            batches,
            delivered: noisy(taken / seconds),
            demand: (batches > 0).then(|| noisy(taken / (seconds - waited))),
            waited: noisy(waited / seconds).min(1.0),
            compute: (sum(|s| s.made) > 0.0).then(|| noisy(self.job.batch_cost)),
            busy: (all_threads > 0.0).then(|| sum(|s| s.made) * self.job.batch_cost / all_threads),
            ahead: Some(sum(|s| s.ahead) / seconds),
        };
        (self.began, self.least, self.unsteady) = ((self.now, self.sums), self.workers, false);
        self.windows += 1;
        Some(seen)
    }

    /// Batches a second that workers make while there is room, and that the trainer takes while there are any.
    fn rates(&self) -> (f64, f64) {
        (self.job.capacity(self.workers, self.threads), 1.0 / self.step)
    }

    /// Seconds until what is ahead is as much as it may be, or nothing.
    fn until_level(&self) -> f64 {
        let (made, demand) = self.rates();
        match made - demand {
            net if net > 0.0 => (f64::from(self.job.ahead) - self.buffer) / net,
            net if net < 0.0 => self.buffer / -net,
            _ => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { min: 1, max: 9 };

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// 20 batches/s are wanted, a worker makes 4; five feed it, four let it wait a fifth of its time.
    #[test]
    fn a_window_says_what_was_taken_waited_for_and_ahead() {
        let job = Job { ahead: 10, ..Job::new("j", 0.05, 0.25, 1000) };
        let mut live = Live::new(&job, 0, 1, 0);
        live.set_workers(0.0, 4);
        live.advance(2.0);
        let seen = live.observe(LIMITS).expect("long enough");
        assert!(close(seen.delivered, 16.0) && close(seen.waited, 0.2) && seen.batches == 32, "{seen:?}");
        assert!(seen.demand.is_some_and(|d| close(d, 20.0)) && seen.steady && seen.workers == 4, "{seen:?}");
        assert!(seen.busy.is_some_and(|b| close(b, 1.0)) && seen.ahead == Some(0.0), "{seen:?}");
        // Ten workers make 20 more than are taken: ten are ahead after half a second, and then half of the threads rest.
        live.set_workers(2.0, 10);
        live.advance(3.0);
        assert_eq!(live.observe(LIMITS), None, "too early");
        live.advance(4.0);
        let seen = live.observe(LIMITS).expect("long enough");
        assert!(close(seen.waited, 0.0) && close(seen.delivered, 20.0), "{seen:?}");
        assert!(seen.ahead.is_some_and(|a| close(a, (10.0 * 1.5 + 5.0 * 0.5) / 2.0)), "{seen:?}");
        assert!(seen.busy.is_some_and(|b| close(b, 0.625)), "{seen:?}");
        // Without workers it lives on what is ahead: half a second of 20 batches/s.
        live.set_workers(4.0, 0);
        assert_eq!(live.ends(), None);
        live.advance(5.0);
        assert!(close(live.sums().taken, 32.0 + 40.0 + 10.0) && close(live.sums().waited, 0.4 + 0.5));
    }
}
