//! A baseline: Cachew's AutoScaling, as published (Graur et al., USENIX ATC 2022), with the constants of its newest
//! code.
//!
//! It climbs by one worker at a time from one, by the time of 100 batches: it goes on while that falls by more than 7
//! %, then goes one step back and stops. At rest, it checks on every 21st report whether the reader's queue or the
//! batch time is 1.5 times the old value. It ignores 150 batches after a change. Not here: Cachew extends an epoch for
//! as long as it climbs, which repeats data.

use std::collections::VecDeque;

use super::gain;
use super::reports::Reports;
use forebay_policy::scaling::{Choice, Decision, Gap, Observation, Policy, Reason, ScalingPolicy};

/// The gain that one more worker must bring, unless the user sets another.
pub const UP: f64 = 0.07;
const DOWN: f64 = 0.03;
const STABLE_REPORTS: u32 = 20;
const QUEUE_GROWTH: f64 = 1.5;
const BATCH_GROWTH: f64 = 1.5;
/// A larger improvement than this is a mistake.
const UNSTABLE: f64 = 1.2;
const HISTORY_MAX: usize = 20;
const WORKERS_MAX: u32 = 100;
/// Batches that are ignored after a change, and batches of a report.
const DISCARDED: u64 = 150;
const REPORTED: u64 = 100;

/// A reader's report.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Report {
    workers: u32,
    /// Seconds for a batch.
    batch: f64,
    queue: f64,
}

/// The state between windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// The gain that one more worker must bring.
    up: f64,
    target: u32,
    scaling: bool,
    counter: u32,
    history: VecDeque<Report>,
    converged: Option<Report>,
    reports: Reports,
}

impl Default for Previous {
    fn default() -> Self {
        Self::new(UP)
    }
}

impl Previous {
    /// Makes the policy with the gain that one more worker must bring.
    pub fn new(up: f64) -> Self {
        Self {
            up,
            target: 1,
            scaling: true,
            counter: 0,
            history: VecDeque::new(),
            converged: None,
            reports: Reports::new(DISCARDED, REPORTED),
        }
    }
}

/// The name by which a user chooses it, with the gain of one more worker.
pub(super) const CHOICE: Choice =
    Choice { usage: "cachew or cachew:0.03", parse: |text| Some(Box::new(Previous::new(gain(text, "cachew", UP)?))) };

impl ScalingPolicy for Previous {
    fn decide(&mut self, seen: &Observation) -> Decision {
        let (decision, next) = decide(seen, self);
        *self = next;
        decision
    }

    fn boxed(&self) -> Box<dyn ScalingPolicy> {
        Box::new(self.clone())
    }
}

/// Returns the policy with the gain that one more worker must bring.
pub fn cachew(gain: f64) -> Policy {
    Policy::new(format!("cachew:{gain}"), Box::new(Previous::new(gain)))
}

/// Decides after one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let reason = match next.reports.add(seen) {
        None if !(seen.delivered.is_finite() && seen.delivered >= 0.0) => Reason::NoFigures { gap: Gap::Contradiction },
        None => Reason::Rule { policy: "cachew", found: "too few batches yet", figure: next.reports.batches() as f64 },
        Some(seen) => {
            let (workers, batch, queue) = (seen.workers, 1.0 / seen.delivered, seen.ahead.unwrap_or(0.0));
            let (found, figure) = next.report(Report { workers, batch, queue });
            Reason::Rule { policy: "cachew", found, figure }
        }
    };
    next.target = next.target.min(WORKERS_MAX);
    let workers = seen.limits.clamp(next.target);
    (Decision { workers, local: 0, cut: None, reason, figures: seen.figures().ok() }, next)
}

impl Previous {
    fn report(&mut self, now: Report) -> (&'static str, f64) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(now);
        if now.workers != self.target {
            return ("workers on their way", f64::from(now.workers));
        }
        if self.scaling { self.climb(now) } else { self.rest(now) }
    }

    fn climb(&mut self, now: Report) -> (&'static str, f64) {
        if self.history.len() == 1 {
            self.target = now.workers + 1;
            return ("nothing to compare with", now.batch);
        }
        let Some(then) = self.history.iter().rev().find(|r| r.workers != now.workers).copied() else {
            self.stop(now);
            return ("one number alone", now.batch);
        };
        let gain = 1.0 - now.batch / then.batch;
        if gain.abs() > UNSTABLE {
            return ("a figure that is not stable", gain);
        }
        let (on, found) = match then.workers < now.workers {
            true => (gain > self.up, "this gain of one more"),
            false => (gain > -DOWN && now.workers > 1, "this gain of one fewer"),
        };
        match (on, then.workers < now.workers) {
            (true, true) => self.target = now.workers + 1,
            (true, false) => self.target = now.workers - 1,
            (false, _) => self.stop(then),
        }
        (found, gain)
    }

    fn stop(&mut self, at: Report) {
        (self.target, self.converged, self.scaling, self.counter) = (at.workers, Some(at), false, 0);
    }

    fn rest(&mut self, now: Report) -> (&'static str, f64) {
        self.counter += 1;
        if self.counter <= STABLE_REPORTS {
            return ("rest", now.batch);
        }
        self.counter = 0;
        let Some(then) = self.converged else { return ("rest", now.batch) };
        let (queue, batch) = (now.queue / then.queue, now.batch / then.batch);
        if queue.is_finite() && queue > QUEUE_GROWTH && then.workers > 1 {
            (self.target, self.scaling) = (then.workers - 1, true);
            return ("a longer queue", queue);
        }
        if queue.is_finite() && batch > BATCH_GROWTH {
            (self.target, self.scaling) = (then.workers + 1, true);
            return ("longer batches", batch);
        }
        ("rest", batch)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Ticks;

    use super::*;
    use forebay_policy::scaling::Limits;

    fn seen(workers: u32, batch: f64, ahead: f64) -> Observation {
        Observation {
            at: Ticks(0),
            workers,
            local: 0,
            steady: true,
            limits: Limits { min: 1, max: 100 },
            threads: 8.0,
            batches: 50,
            delivered: 1.0 / batch,
            demand: None,
            waited: 0.0,
            compute: None,
            busy: None,
            made: None,
            ahead: Some(ahead),
            threads_by_kind: Vec::new(),
            beside: 0.0,
            host: None,
        }
    }

    /// Runs windows with the requested workers; `times` are seconds for a batch with 1, 2, ... workers.
    fn run(previous: &mut Previous, windows: usize, times: &[f64], ahead: f64) -> Vec<u32> {
        let step = |_| {
            let workers = previous.target;
            let batch = times[(workers as usize - 1).min(times.len() - 1)];
            let (decision, next) = decide(&seen(workers, batch, ahead), previous);
            *previous = next;
            decision.workers
        };
        (0..windows).map(step).collect()
    }

    /// The epoch times of the reference runs of its artifact (Figure 6a), both of which came to rest at 4.
    #[test]
    fn the_published_runs_come_to_rest_where_they_did() {
        for times in [[17.3, 8.7, 6.45, 5.5, 5.12, 5.0, 4.93, 4.93].as_slice(), &[14.37, 6.97, 4.3, 3.88, 3.91, 3.91]] {
            let mut previous = Previous::default();
            let decisions = run(&mut previous, 400, times, 2.0);
            assert_eq!((previous.target, previous.scaling), (4, false));
            assert_eq!(decisions.iter().max(), Some(&5), "one step too far, and back");
            let rises = decisions.windows(2).filter(|w| w[0] < w[1]).count();
            assert_eq!(rises, 4);
        }
    }

    #[test]
    fn at_rest_it_looks_rarely_and_only_for_much() {
        let mut previous = Previous::default();
        run(&mut previous, 100, &[1.0, 0.5, 0.33, 0.32], 2.0);
        assert_eq!(previous.target, 3);
        assert!(run(&mut previous, 200, &[1.4, 0.7, 0.46, 0.45], 2.0).iter().all(|&n| n == 3), "1.4 times is nothing");
        assert!(run(&mut previous, 200, &[3.0, 1.5, 1.0, 0.7], 2.0).contains(&4));
    }
}
