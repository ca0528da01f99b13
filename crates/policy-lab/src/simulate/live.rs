//! A running job: the batches of its trainer and workers, the waits, and the windows.
//!
//! Invariant: rates are constant between two calls of [`Live::advance`], so all sums are exact, however long that is.

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, SampleId, Seed, Ticks};

use super::Job;
use forebay_policy::placement::{Cut, Finishing, Machine, Manners, Model, Objective, Placement};
use forebay_policy::scaling::{self, Limits, Observation, window};

/// The most that rounding alone takes off a sum of times or batches.
const ROUNDING: f64 = 1e-6;

/// Sums since the job began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// Batches that the trainer took.
    pub(super) taken: f64,
    /// Seconds in which it waited.
    pub(super) waited: f64,
    /// Batches made by the workers, and batches made at the trainer.
    made: f64,
    here: f64,
    /// Spare cores of the trainer's machine, and the share of the time in which the trainer lacked a core, times
    /// seconds.
    spare: f64,
    pressed: f64,
    /// Cores that its process used on the rows that workers sent, times seconds.
    finishes: f64,
    /// Batches that were ahead, times seconds.
    ahead: f64,
    /// Threads of workers, times seconds.
    threads: f64,
}

/// A job at a moment.
#[derive(Debug)]
pub(super) struct Live<'a> {
    job: &'a Job,
    model: Model,
    objective: Objective,
    /// Threads of a worker at the trainer.
    crew: u32,
    /// The random stream of its noise.
    key: u64,
    now: f64,
    at: Placement,
    buffer: f64,
    sums: Sums,
    /// The time at which the window began, and the sums then.
    began: (f64, Sums),
    /// The fewest workers in the window, and whether the placement changed in it.
    least: u32,
    unsteady: bool,
    windows: u64,
}

impl<'a> Live<'a> {
    /// Begins a job, without workers. `index` is its place among the jobs; `crew` is the threads of one worker at the
    /// trainer.
    pub(super) fn new(job: &'a Job, index: usize, (threads, crew): (f64, u32), manners: Manners, seed: u64) -> Self {
        Self {
            job,
            model: job.model(threads, manners),
            objective: job.objective,
            crew,
            key: op_key(Seed(seed), Epoch(0), index as u64),
            now: job.begins,
            at: job.on_workers(0),
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

    pub(super) fn crew(&self) -> u32 {
        self.crew
    }

    /// Returns its placement.
    pub(super) fn at(&self) -> Placement {
        self.at
    }

    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    /// Returns the number of windows that have ended.
    pub(super) fn windows(&self) -> u64 {
        self.windows
    }

    /// Advances time.
    pub(super) fn advance(&mut self, now: f64) {
        let lasted = (now - self.now).max(0.0);
        self.now = now;
        let (made, demand) = self.rates();
        let filling = self.until_level().min(lasted);
        let level = (self.buffer + (made - demand) * filling).clamp(0.0, f64::from(self.job.ahead));
        let rest = lasted - filling;
        let slower = made.min(demand);
        self.sums.taken += demand * filling + slower * rest;
        // Both kinds of makers wait for room for the same part of their time.
        let (remote, local) = self.model.made(self.at);
        let worked = filling + if made > 0.0 { rest * slower / made } else { 0.0 };
        self.sums.made += remote * worked;
        self.sums.here += local * worked;
        let finishes = match self.model.finishing {
            Finishing::Threads => 0.0,
            Finishing::Reader => {
                self.model.taken_by_reader(remote * worked / lasted.max(f64::MIN_POSITIVE), self.model.cut(self.at))
            }
        };
        self.sums.finishes += finishes * lasted;
        self.sums.spare += (self.model.spare() - finishes).max(0.0) * lasted;
        self.sums.pressed += (1.0 - self.model.step / self.model.step(self.at)) * lasted;
        self.sums.waited += rest * (1.0 - slower / demand);
        self.sums.ahead += (self.buffer + level) / 2.0 * filling + level * rest;
        self.sums.threads += f64::from(self.at.workers) * self.model.threads * lasted;
        self.buffer = level;
    }

    /// Sets the seconds of a step from now on.
    pub(super) fn set_step(&mut self, now: f64, step: f64) {
        self.advance(now);
        self.model.step = step;
    }

    /// Sets the cores that the trainer keeps busy, from now on.
    pub(super) fn set_used(&mut self, now: f64, used: f64) {
        self.advance(now);
        self.model.machine = self.model.machine.map(|machine| Machine { used, ..machine });
    }

    /// Sets the price of a worker from now on.
    pub(super) fn set_price(&mut self, price: f64) {
        self.objective = self.objective.with_worker(price);
    }

    /// Sets the threads of a worker from now on; returns whether they changed.
    pub(super) fn set_threads(&mut self, now: f64, threads: f64) -> bool {
        if self.model.threads == threads {
            return false;
        }
        self.advance(now);
        (self.model.threads, self.unsteady) = (threads, true);
        true
    }

    /// Sets the placement from now on. A worker at the trainer has `crew` threads.
    pub(super) fn set_placement(&mut self, now: f64, at: Placement) {
        self.advance(now);
        self.at = at;
        if now <= self.began.0 {
            self.least = at.workers;
            return;
        }
        self.unsteady = true;
        self.least = self.least.min(at.workers);
    }

    /// Returns the time at which its last batch is taken, if nothing changes; `None` is never.
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
        let all_threads = sum(|s| s.threads);
        let cut = self.model.cut(self.at);
        let cost = cut.before + self.model.wire.send * cut.bytes;
        let seen = Observation {
            at: Ticks((self.now * 1000.0) as u64),
            workers: self.least,
            local: self.at.local / self.crew,
            steady: !self.unsteady,
            limits,
            threads: self.model.threads,
            threads_by_kind: Vec::new(),
            batches,
            delivered: noisy(taken / seconds),
            demand: (batches > 0).then(|| noisy(taken / (seconds - waited))),
            waited: noisy(waited / seconds).min(1.0),
            compute: (sum(|s| s.made + s.here) > 0.0).then(|| noisy(cost)),
            busy: (all_threads > 0.0).then(|| sum(|s| s.made) * cost / all_threads),
            ahead: Some(sum(|s| s.ahead) / seconds),
            beside: 0.0,
            host: self.machine().map(|machine| {
                let sums = [sum(|s| s.spare), sum(|s| s.pressed), sum(|s| s.here), sum(|s| s.finishes)];
                self.host(machine, sums.map(|sum| sum / seconds), &mut noisy)
            }),
            made: Some(noisy(sum(|s| s.made) / seconds)),
        };
        (self.began, self.least, self.unsteady) = ((self.now, self.sums), self.at.workers, false);
        self.windows += 1;
        Some(seen)
    }

    /// Returns the trainer's machine, or one where nothing may compute, because the objective is passed with it.
    fn machine(&self) -> Option<Machine> {
        let busy = Machine { cores: 1.0, used: 1.0, manners: Manners::SpareOnly, interference: 0.0 };
        self.model.machine.or((self.objective != Objective::Time).then_some(busy))
    }

    /// Returns the measurements of the trainer's machine: spare cores, the pressure, batches a second made there, cores
    /// that finished received rows.
    fn host(
        &self,
        machine: Machine,
        [spare, pressed, here, finishes]: [f64; 4],
        noisy: &mut impl FnMut(f64) -> f64,
    ) -> scaling::Host {
        let (scale, job) = (noisy(1.0), self.job.host.as_ref());
        let of = |cut: &Cut| Cut { before: cut.before * scale, after: cut.after * scale, ..*cut };
        scaling::Host {
            cores: machine.cores,
            spare: noisy(spare),
            pressure: noisy(pressed).clamp(0.0, 1.0),
            local_max: job.map_or(0, |host| host.local_max),
            here: noisy(here),
            cuts: self.model.cuts.iter().map(of).collect(),
            cut: self.at.cut,
            wire: self.model.wire,
            finishing: self.model.finishing,
            finishes: if finishes > 0.0 { noisy(finishes) } else { 0.0 },
            objective: self.objective,
        }
    }

    /// Returns the batches a second that workers make while there is room, and that the trainer takes while there are
    /// any.
    fn rates(&self) -> (f64, f64) {
        (self.model.capacity(self.at), 1.0 / self.model.step(self.at))
    }

    /// Returns the seconds until the batches ahead reach their limit, or 0.
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

    /// The trainer wants 20 batches/s, a worker makes 4; with five it never waits, with four it waits a fifth of its
    /// time.
    #[test]
    fn a_window_says_what_was_taken_waited_for_and_ahead() {
        let job = Job { ahead: 10, ..Job::new("j", 0.05, 0.25, 1000) };
        let mut live = Live::new(&job, 0, (1.0, 1), Manners::SpareOnly, 0);
        live.set_placement(0.0, job.on_workers(4));
        live.advance(2.0);
        let seen = live.observe(LIMITS).expect("long enough");
        assert!(close(seen.delivered, 16.0) && close(seen.waited, 0.2) && seen.batches == 32, "{seen:?}");
        assert!(seen.demand.is_some_and(|d| close(d, 20.0)) && seen.steady && seen.workers == 4, "{seen:?}");
        assert!(seen.busy.is_some_and(|b| close(b, 1.0)) && seen.ahead == Some(0.0), "{seen:?}");
        // Ten workers make 20 more than the trainer takes: ten are ahead after half a second, and then half of the
        // threads rest.
        live.set_placement(2.0, job.on_workers(10));
        live.advance(3.0);
        assert_eq!(live.observe(LIMITS), None, "too early");
        live.advance(4.0);
        let seen = live.observe(LIMITS).expect("long enough");
        assert!(close(seen.waited, 0.0) && close(seen.delivered, 20.0), "{seen:?}");
        assert!(seen.ahead.is_some_and(|a| close(a, (10.0 * 1.5 + 5.0 * 0.5) / 2.0)), "{seen:?}");
        assert!(seen.busy.is_some_and(|b| close(b, 0.625)), "{seen:?}");
        // Without workers the trainer uses the batches ahead: half a second of 20 batches/s.
        live.set_placement(4.0, job.on_workers(0));
        assert_eq!(live.ends(), None);
        live.advance(5.0);
        assert!(close(live.sums().taken, 32.0 + 40.0 + 10.0) && close(live.sums().waited, 0.4 + 0.5));
    }
}
