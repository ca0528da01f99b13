//! Forebay's own policy: measure what is asked for and what one worker gives, solve for the count, confirm it by a probe or
//! two, and keep watching.
//!
//! Invariants: at most [`PROBES_MAX`] changes follow the first one at the same load; a number that was too few is not gone back
//! to before the load has fallen; without figures nothing changes; the result is within the limits.

use std::collections::VecDeque;

use super::decision::{Decision, Figures, Reason};
use super::{Limits, Observation};

/// What is added to the demand before it is divided by the supply.
pub const MARGIN: f64 = 0.01;
/// The share of its time that a trainer may wait where the number of workers is right.
pub const WAIT_MAX: f64 = 0.02;
/// Once the number was found right, the share from which it is not any more.
pub const WAIT_AGAIN: f64 = 0.05;
/// From this share on the workers cannot keep up, so what is delivered is what they make.
pub const SATURATED: f64 = 0.10;
/// Changes that may follow the first one at the same load.
pub const PROBES_MAX: u32 = 3;
/// A load that is so many times what it was, or less than what it was divided by this, is another load.
pub const CHANGE: f64 = 1.6;
/// The same, while what it was is known of few windows.
const CHANGE_EARLY: f64 = 2.2;
/// What a load may be below what the number was found for, over many windows, before fewer will do: as a factor of it.
const SLACK: f64 = 1.2;
/// The share of the gain that was to be expected below which more workers do not help.
const USEFUL: f64 = 0.5;
/// What of a worker's computing time reaches the trainer, at least and at most.
const EFFICIENCY: (f64, f64) = (0.2, 1.25);
/// Windows that a number is found or confirmed on, that a change is noticed on, and that are remembered.
const FEW: usize = 3;
const SOME: usize = 5;
const MANY: usize = 15;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Nothing is known.
    Learning,
    /// A number was found; whether it is right is not known yet. So many probes were made.
    Confirming(u32),
    /// The number is right, or as right as can be; the trainer waited this share of its time then.
    Settled(f64),
}

/// A number of workers, and what was found with it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    workers: u32,
    /// Workers' worth of work.
    load: f64,
    delivered: f64,
}

/// One window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    figures: Figures,
    steady: bool,
}

/// What is remembered from window to window.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// `None` is what there is.
    wanted: Option<u32>,
    phase: Phase,
    /// Since the number was changed last; the newest last.
    windows: VecDeque<Window>,
    /// What of a worker's computing time reaches the trainer.
    efficiency: f64,
    /// Workers' worth of work that the number was found for, and the windows that it is the mean of.
    based: (f64, u32),
    /// What the last change came from.
    tried: Option<Mark>,
    /// What was too few.
    too_few: Option<Mark>,
    /// Whether more do not help.
    is_shared: bool,
}

impl Default for Previous {
    fn default() -> Self {
        Self {
            wanted: None,
            phase: Phase::Learning,
            windows: VecDeque::new(),
            efficiency: 1.0,
            based: (0.0, 0),
            tried: None,
            too_few: None,
            is_shared: false,
        }
    }
}

/// Decides on one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let (reason, figures) = next.step(seen);
    let workers = seen.limits.clamp(next.wanted.unwrap_or(seen.workers));
    (Decision { workers, local: 0, reason, figures }, next)
}

impl Previous {
    fn step(&mut self, seen: &Observation) -> (Reason, Option<Figures>) {
        let figures = match seen.figures() {
            Ok(figures) => figures,
            Err(gap) => return (Reason::NoFigures { gap }, None),
        };
        let wanted = seen.limits.clamp(self.wanted.unwrap_or(figures.workers));
        if self.windows.len() == MANY {
            self.windows.pop_front();
        }
        self.windows.push_back(Window { figures, steady: seen.steady });
        let windows = self.windows.len();
        if windows < FEW {
            return (Reason::Measuring { windows, needed: FEW }, Some(self.medians(windows)));
        }
        self.wanted = Some(wanted);
        match self.phase {
            Phase::Learning => self.learn(seen.limits, wanted),
            Phase::Confirming(probes) => {
                self.follow(seen.limits, wanted).unwrap_or_else(|| self.confirm(seen.limits, wanted, probes))
            }
            Phase::Settled(waited) => {
                self.follow(seen.limits, wanted).unwrap_or_else(|| self.watch(seen.limits, wanted, waited))
            }
        }
    }

    /// The first number.
    fn learn(&mut self, limits: Limits, wanted: u32) -> (Reason, Option<Figures>) {
        let figures = self.medians(FEW);
        self.learn_efficiency(&figures);
        let needed = self.needed(&figures);
        self.based = (figures.load(), 1);
        if limits.clamp(needed) == wanted {
            return self.confirm(limits, wanted, 0);
        }
        self.tried = Some(Mark { workers: figures.workers, load: figures.load(), delivered: figures.delivered });
        self.change(limits, needed, 0, &figures, Reason::Demand { margin: MARGIN })
    }

    /// A load that is another one.
    fn follow(&mut self, limits: Limits, wanted: u32) -> Option<(Reason, Option<Figures>)> {
        if self.windows.len() < SOME {
            return None;
        }
        let (before, count) = self.based;
        let change = if (count as usize) < SOME { CHANGE_EARLY } else { CHANGE };
        let now = self.medians(SOME).load();
        if now <= before * change && now * change >= before {
            return None;
        }
        // The window in which it changed has some of both, and may be the median of all; of the newest it is none.
        let figures = self.medians(FEW);
        let (now, needed) = (figures.load(), limits.clamp(self.needed(&figures)));
        if needed == wanted {
            return None;
        }
        (self.based, self.tried, self.too_few, self.is_shared) = ((now, 1), None, None, false);
        Some(self.change(limits, needed, 0, &figures, Reason::Changed { before, now }))
    }

    /// Whether the number is right, once its workers are there.
    fn confirm(&mut self, limits: Limits, wanted: u32, probes: u32) -> (Reason, Option<Figures>) {
        let figures = self.medians(FEW);
        if !self.is_apt(wanted, FEW) {
            return (Reason::Settling { wanted }, Some(figures));
        }
        self.phase = Phase::Confirming(probes);
        if figures.waited <= WAIT_MAX {
            let was_too_few = self.too_few.is_some_and(|mark| wanted <= mark.workers + 1);
            if self.needed(&figures) < wanted && wanted > limits.min && probes < PROBES_MAX && !was_too_few {
                let load = figures.load();
                return self.change(limits, wanted - 1, probes + 1, &figures, Reason::Fewer { load });
            }
            return self.settle(&figures, Reason::Enough { at_most: WAIT_MAX });
        }
        self.more(limits, wanted, probes, figures)
    }

    /// The trainer waits.
    fn more(&mut self, limits: Limits, wanted: u32, probes: u32, figures: Figures) -> (Reason, Option<Figures>) {
        if let Some(useful) = self.useful(&figures) {
            self.is_shared = true;
            if limits.clamp(useful) != wanted {
                self.wanted = Some(limits.clamp(useful));
                self.windows.clear();
            }
            return self.settle(&figures, Reason::Shared { useful });
        }
        if figures.waited > SATURATED {
            self.learn_efficiency(&figures);
        }
        let needed = self.needed(&figures).max(wanted + 1);
        if wanted >= limits.max {
            return self.settle(&figures, Reason::AtMost { needed, limit: limits.max });
        }
        if probes >= PROBES_MAX {
            return self.settle(&figures, Reason::Unmet { probes });
        }
        let mark = Mark { workers: wanted, load: figures.load(), delivered: figures.delivered };
        (self.too_few, self.tried) = (Some(mark), Some(mark));
        self.change(limits, needed, probes + 1, &figures, Reason::Waits { at_most: WAIT_MAX })
    }

    /// The number was right: is it still?
    fn watch(&mut self, limits: Limits, wanted: u32, waited_then: f64) -> (Reason, Option<Figures>) {
        let figures = self.medians(SOME.min(self.windows.len()));
        let newest = self.windows.back().map_or(figures, |w| w.figures);
        let (mean, count) = self.based;
        if (count as usize) < MANY {
            self.based = (mean + (newest.load() - mean) / f64::from(count + 1), count + 1);
        }
        if !self.is_apt(wanted, SOME) {
            return (Reason::Settling { wanted }, Some(figures));
        }
        let still =
            if self.is_shared { Reason::Shared { useful: wanted } } else { Reason::Enough { at_most: WAIT_AGAIN } };
        if figures.waited > WAIT_AGAIN.max(2.0 * waited_then) && !self.is_shared && wanted < limits.max {
            self.tried = None;
            return self.more(limits, wanted, 0, figures);
        }
        if self.windows.len() == MANY {
            let load = self.windows.iter().map(|w| w.figures.load()).sum::<f64>() / MANY as f64;
            let is_less = load * SLACK < self.based.0;
            let needed = limits.clamp(count_of(load * (1.0 + MARGIN) / self.efficiency));
            // Where it was tried, the load must be less than it was then.
            let was_too_few = self.too_few.is_some_and(|mark| needed <= mark.workers && load * SLACK >= mark.load);
            if is_less && needed < wanted && !self.is_shared && !was_too_few {
                return self.change(limits, needed, PROBES_MAX - 1, &figures, Reason::Fewer { load });
            }
        }
        if figures.waited > WAIT_AGAIN && wanted >= limits.max {
            let needed = self.needed(&figures).max(wanted + 1);
            return (Reason::AtMost { needed, limit: limits.max }, Some(figures));
        }
        (still, Some(figures))
    }

    /// Asks for another number; where the limits leave none, says so.
    fn change(
        &mut self,
        limits: Limits,
        needed: u32,
        probes: u32,
        figures: &Figures,
        reason: Reason,
    ) -> (Reason, Option<Figures>) {
        let wanted = limits.clamp(needed);
        if self.wanted != Some(wanted) {
            self.windows.clear();
        }
        (self.wanted, self.phase) = (Some(wanted), Phase::Confirming(probes));
        let reason = if needed > limits.max { Reason::AtMost { needed, limit: limits.max } } else { reason };
        (reason, Some(*figures))
    }

    fn settle(&mut self, figures: &Figures, reason: Reason) -> (Reason, Option<Figures>) {
        self.phase = Phase::Settled(figures.waited);
        self.based = (figures.load(), 1);
        (reason, Some(*figures))
    }

    /// Whether the newest windows were all with the workers that were asked for.
    fn is_apt(&self, wanted: u32, count: usize) -> bool {
        let newest = || self.windows.iter().rev().take(count);
        newest().count() == count && newest().all(|w| w.steady && w.figures.workers == wanted)
    }

    /// While the workers cannot keep up, what is delivered says what of their time reaches the trainer.
    fn learn_efficiency(&mut self, figures: &Figures) {
        let is_same = self.is_apt(figures.workers, FEW);
        if figures.waited > SATURATED && is_same {
            let made = figures.delivered / (f64::from(figures.workers) * figures.supply);
            self.efficiency = made.clamp(EFFICIENCY.0, EFFICIENCY.1);
        }
    }

    fn needed(&self, figures: &Figures) -> u32 {
        count_of(figures.load() * (1.0 + MARGIN) / self.efficiency)
    }

    /// Returns how many workers bring what all do, where the last change brought far less than it should have.
    fn useful(&self, now: &Figures) -> Option<u32> {
        let then = self.tried.filter(|then| then.workers > 0 && then.workers < now.workers && then.delivered > 0.0)?;
        let of_one = then.delivered / f64::from(then.workers);
        let expected = now.demand.min(of_one * f64::from(now.workers)) - then.delivered;
        let gained = now.delivered - then.delivered;
        (gained < USEFUL * expected).then(|| count_of(now.delivered / of_one).max(then.workers))
    }

    /// Returns the medians of the newest windows.
    fn medians(&self, count: usize) -> Figures {
        let of = |figure: fn(&Figures) -> f64| {
            median(self.windows.iter().rev().take(count).map(|w| figure(&w.figures)).collect())
        };
        Figures {
            workers: self.windows.back().map_or(0, |w| w.figures.workers),
            demand: of(|f| f.demand),
            supply: of(|f| f.supply),
            compute: of(|f| f.compute),
            waited: of(|f| f.waited),
            delivered: of(|f| f.delivered),
        }
    }
}

/// Whole workers for a number of them. What rounding alone adds is no worker.
fn count_of(workers: f64) -> u32 {
    (workers - 1e-6).ceil().clamp(1.0, f64::from(u32::MAX)) as u32
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use forebay_core::Ticks;

    use super::*;
    use crate::scaling::Gap;

    fn observation(workers: u32, demand: f64, compute: f64) -> Observation {
        let made = f64::from(workers) / compute;
        let delivered = demand.min(made);
        Observation {
            at: Ticks(0),
            workers,
            local: 0,
            steady: true,
            limits: Limits { min: 1, max: 64 },
            threads: 1.0,
            batches: 10,
            delivered,
            demand: Some(demand),
            waited: 1.0 - delivered / demand,
            compute: Some(compute),
            busy: None,
            ahead: None,
        }
    }

    /// Runs windows with as many workers as were asked for the last time; returns what was decided.
    fn run(
        previous: &mut Previous,
        windows: usize,
        workers: &mut u32,
        of: impl Fn(u32) -> Observation,
    ) -> Vec<Decision> {
        let step = |_| {
            let (decision, next) = decide(&of(*workers), previous);
            (*previous, *workers) = (next, decision.workers);
            decision
        };
        (0..windows).map(step).collect()
    }

    #[test]
    fn a_number_is_found_confirmed_and_told_in_words() {
        let (mut previous, mut workers) = (Previous::default(), 1);
        let decisions = run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
        let wanted: Vec<_> = decisions.iter().map(|d| d.workers).collect();
        assert_eq!(wanted, [1, 1, 3, 3, 3, 3, 3, 3]);
        assert_eq!(
            decisions[2].to_string(),
            "3 workers: the trainer takes 10.00 batches/s when it never waits, one worker makes 4.00; 1.0 % are added"
        );
        assert_eq!(decisions[7].reason, Reason::Enough { at_most: WAIT_AGAIN });
        let json = serde_json::to_value(decisions[2]).expect("serialises");
        assert_eq!((&json["rule"], &json["figures"]["demand"]), (&"demand".into(), &10.0.into()));
    }

    #[test]
    fn without_figures_or_with_wrong_ones_nothing_changes() {
        let (mut previous, mut workers) = (Previous::default(), 1);
        run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
        let good = observation(3, 10.0, 0.25);
        let wrong = [
            (Observation { demand: None, ..good }, Gap::Idle),
            (Observation { demand: None, waited: 1.0, ..good }, Gap::NothingYet),
            (Observation { compute: None, ..good }, Gap::NotComputed),
            (Observation { workers: 0, ..good }, Gap::NoWorkers),
            (Observation { demand: Some(f64::NAN), ..good }, Gap::Contradiction),
            (Observation { compute: Some(-1.0), ..good }, Gap::Contradiction),
            (Observation { waited: 1.5, ..good }, Gap::Contradiction),
            (Observation { delivered: 50.0, ..good }, Gap::Contradiction),
            (Observation { threads: 0.0, ..good }, Gap::Contradiction),
        ];
        for (seen, gap) in wrong {
            for _ in 0..20 {
                let (decision, next) = decide(&seen, &previous);
                assert_eq!((decision.workers, decision.reason), (3, Reason::NoFigures { gap }));
                previous = next;
            }
        }
    }

    #[test]
    fn workers_that_do_not_help_are_given_back() {
        // Storage gives 12 batches a second, however many ask it: what three workers make.
        let held_up = |n: u32| {
            let delivered = 12.0f64.min(f64::from(n) * 4.0);
            Observation { delivered, waited: 1.0 - delivered / 32.0, ..observation(n, 32.0, 0.25) }
        };
        let (mut previous, mut workers) = (Previous::default(), 1);
        let decisions = run(&mut previous, 60, &mut workers, held_up);
        assert_eq!(workers, 3);
        assert_eq!(decisions.windows(2).filter(|w| w[0].workers != w[1].workers).count(), 2);
        assert!(decisions.iter().any(|d| d.reason == Reason::Shared { useful: 3 }), "{decisions:?}");
    }

    #[test]
    fn what_may_not_be_had_is_said_and_what_does_not_come_is_waited_for() {
        let limited = |n| Observation { limits: Limits { min: 1, max: 2 }, ..observation(n, 10.0, 0.5) };
        let (mut previous, mut workers) = (Previous::default(), 1);
        let decisions = run(&mut previous, 30, &mut workers, limited);
        assert_eq!(workers, 2);
        assert!(matches!(decisions[29].reason, Reason::AtMost { needed: 6.., limit: 2 }), "{}", decisions[29]);
        // Five are needed, and never more than one comes.
        let mut previous = Previous::default();
        let decisions = run(&mut previous, 30, &mut 1, |_| observation(1, 10.0, 0.5));
        assert!(decisions[5..].iter().all(|d| d.workers == 6), "{decisions:?}");
        assert_eq!(decisions[29].reason, Reason::Settling { wanted: 6 });
    }
}
