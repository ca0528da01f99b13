//! Forebay's own policy: measure what is asked for and what one worker gives, solve for the placement, confirm it by a probe or
//! two, and keep watching.
//!
//! Where the reader's machine is not told of, or nothing may compute there, the placement is a number of workers: one policy, not two.
//! Invariants: at most [`PROBES_MAX`] changes follow the first one at the same load; a placement that was too little is not gone
//! back to before the load has fallen; cores that the trainer misses are given back in the window that says so, by threads and by
//! the cut, and not taken again before there are more of them; without figures nothing changes; the result is within the limits.

mod memory;
mod phases;
mod solving;
mod steady_state;
#[cfg(test)]
mod tests;

use super::decision::{Decision, Figures, Reason};
use super::{Choice, Host, Limits, Observation, ScalingPolicy, Start};
use crate::placement::{Bounds, Model, Objective, Placement, solve};
use memory::Memory;
use serde::{Deserialize, Serialize};
pub use steady_state::SteadyState;

/// What is added to the demand before it is solved for.
pub const MARGIN: f64 = 0.01;
/// The share of its time that a trainer may wait where the placement is right.
pub const WAIT_MAX: f64 = 0.02;
/// Once the placement was found right, the share from which it is not any more.
pub const WAIT_AGAIN: f64 = 0.05;
/// From this share on the workers cannot keep up, so what is delivered is what they make.
pub const SATURATED: f64 = 0.10;
/// Changes that may follow the first one at the same load.
pub const PROBES_MAX: u32 = 3;
/// A load that is so many times what it was, or less than what it was divided by this, is another load. Spare cores that are
/// so many times what they were are worth another look.
pub const CHANGE: f64 = 1.6;
/// The share of its time that a trainer may lack a core before threads on its machine give theirs back.
pub const PRESSURE_MAX: f64 = 0.10;
/// What threads had of the cores that they asked for, as a share of these, below which they give some back. Figures that are off
/// by a fifth, once too high and once too low, do not come to this.
pub const YIELD: f64 = 0.6;
/// The part of what wire and threads let through from which they may be what is full, and not the workers what is slow.
const FULL: f64 = 0.95;
/// So many times what came from workers is what they make ahead of a reader that waits for what is next in its order. Figures that are
/// off by a fifth, over a few windows, do not come to this.
const AHEAD: f64 = 1.25;
/// Less than this of a core is none.
const NO_CORE: f64 = 0.1;
/// What is left of the trainer's own speed when threads on its machine are held to hurt it.
const SUFFERS: f64 = 0.75;
/// What another cut may leave the reader's process of its work, at most, to be held to be lighter: figures that are off by some
/// percent move it once.
const LIGHTER: f64 = 0.8;
/// What another placement must save, as a share of the price, to be tried.
const CHEAPER: f64 = 0.02;
/// The same as [`CHANGE`], while what it was is known of few windows.
const CHANGE_EARLY: f64 = 2.2;
/// What a load may be below what the placement was found for, over many windows, before less will do: as a factor of it.
const SLACK: f64 = 1.2;
/// The part of a unit's threads that may be of other kinds before it is another unit.
const OTHER_UNIT: f64 = 0.1;
/// The share of the gain that was to be expected below which more workers do not help.
const USEFUL: f64 = 0.5;
/// What of a worker's computing time reaches the trainer, at least and at most.
const EFFICIENCY: (f64, f64) = (0.2, 1.25);
/// Windows that a placement is found or confirmed on, that a change is noticed on, and that are remembered.
const FEW: usize = 3;
const SOME: usize = 5;
const MANY: usize = 15;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Nothing is known.
    Learning,
    /// A placement was found; whether it is right is not known yet. So many probes were made.
    Confirming(u32),
    /// The placement is right, or as right as can be; the trainer waited this share of its time then.
    Settled(f64),
}

/// A placement, and what was found with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Mark {
    at: Placement,
    /// Workers' worth of work.
    load: f64,
    /// Batches a second that the trainer would have taken, and that workers brought.
    demand: f64,
    remote: f64,
}

/// What is solved for: within the limits, and the workers that it would take without them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Target {
    at: Placement,
    needed: u32,
}

/// What is remembered from window to window.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// `None` is what there is.
    wanted: Option<Placement>,
    phase: Phase,
    /// Since the placement was changed last.
    windows: Memory,
    /// What of a worker's computing time reaches the trainer.
    efficiency: f64,
    /// Workers' worth of work that the placement was found for, and the windows that it is the mean of.
    based: (f64, u32),
    /// Spare cores that it was found for.
    based_spare: f64,
    /// The most threads on the reader's machine, once they had to give some back.
    local_max: Option<u32>,
    /// The only cut, once the trainer missed cores, or suffered, and the reader's process had work that workers can do; and the cores that
    /// were spare then, with those that this took.
    cut_only: Option<(u32, f64)>,
    /// What one worker was, in threads of each kind, when marks began to be compared.
    unit: Vec<f64>,
    /// What the last change came from.
    tried: Option<Mark>,
    /// What was too little.
    too_few: Option<Mark>,
    /// Whether more workers do not help.
    is_shared: bool,
    /// Whether the last waits were for what is next, with the rest ahead.
    is_ahead: bool,
}

impl Default for Previous {
    fn default() -> Self {
        Self {
            wanted: None,
            phase: Phase::Learning,
            windows: Memory::default(),
            efficiency: 1.0,
            based: (0.0, 0),
            based_spare: 0.0,
            local_max: None,
            cut_only: None,
            unit: Vec::new(),
            tried: None,
            too_few: None,
            is_shared: false,
            is_ahead: false,
        }
    }
}

/// How a user chooses it.
pub(super) const CHOICE: Choice =
    Choice { usage: "forebay", parse: |text| (text == "forebay").then(|| Previous::default().boxed()) };

impl ScalingPolicy for Previous {
    fn decide(&mut self, seen: &Observation) -> Decision {
        let (decision, next) = decide(seen, self);
        *self = next;
        decision
    }

    fn boxed(&self) -> Box<dyn ScalingPolicy> {
        Box::new(self.clone())
    }

    fn steady_state(&self) -> Option<SteadyState> {
        SteadyState::of(self)
    }

    fn resume(&self, at: &SteadyState) -> Option<Start> {
        let (decision, next) = at.begin();
        Some((decision, Box::new(next)))
    }

    fn begin(&self, model: &Model, figures: Figures, limits: Limits, objective: &Objective) -> Option<Start> {
        let is_sound = model.check().is_ok() && !figures.contradict();
        let (decision, next) = is_sound.then(|| begin(model, figures, limits, objective))?;
        Some((decision, Box::new(next)))
    }

    fn has_objectives(&self) -> bool {
        true
    }
}

/// Decides on one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let (reason, figures) = next.step(seen);
    // Somebody has to begin.
    let workers = if seen.local == 0 { seen.workers.max(1) } else { seen.workers };
    let there = Placement { workers, local: seen.local, cut: seen.host.as_ref().map_or(1, |host| host.cut) };
    let Placement { workers, local, cut } = possible(next.wanted.unwrap_or(there), seen);
    let cut = seen.host.as_ref().filter(|host| host.cuts.len() > 1).map(|_| cut);
    (Decision { workers, local, cut, reason, figures }, next)
}

/// Returns how many of so many threads may stay on the reader's machine, of which `spare` cores are wanted by nobody else, and
/// whose trainer has had no core for a share of its time. Whoever runs them asks this more often than there are windows.
pub fn left(threads: u32, spare: f64, pressure: f64) -> u32 {
    // The last thread may have been given but a part of a core.
    let is_short = spare < (YIELD * f64::from(threads.saturating_sub(1))).max(NO_CORE);
    let is_pressed = pressure > PRESSURE_MAX;
    match (is_short, is_pressed) {
        (false, false) => threads,
        _ if spare < NO_CORE => 0,
        (_, is_pressed) => (if is_pressed { threads / 2 } else { threads }).min(spare.ceil() as u32),
    }
}

/// Returns as much of a placement as there may be: what another job found, or this one before a reader left, may be too much.
fn possible(at: Placement, seen: &Observation) -> Placement {
    let (local_max, cuts) = seen.host.as_ref().map_or((0, 1), |host| (host.local_max, host.cuts.len() as u32));
    Placement { workers: seen.limits.clamp(at.workers), local: at.local.min(local_max), cut: at.cut.min(cuts) }
}

/// Returns what a job begins with of which nothing was measured yet, but for what jobs on the same samples showed: as `model` says, with
/// the `figures` in it. To be confirmed.
pub fn begin(model: &Model, figures: Figures, limits: Limits, objective: &Objective) -> (Decision, Previous) {
    let bounds = Bounds::new((limits.min.min(limits.max), limits.max), 0);
    let at = solve(model, objective, bounds, solving::margin(objective));
    let based = (model.whole() / (model.step * model.threads), 1);
    let next = Previous { wanted: Some(at), phase: Phase::Confirming(0), based, ..Previous::default() };
    let Placement { workers, local, cut } = at;
    (Decision { workers, local, cut: Some(cut), reason: Reason::Known, figures: Some(figures) }, next)
}

type Found = (Reason, Option<Figures>);

impl Previous {
    fn step(&mut self, seen: &Observation) -> Found {
        let figures = match seen.figures() {
            Ok(figures) => figures,
            Err(gap) => return (Reason::NoFigures { gap }, None),
        };
        self.note_unit(&seen.threads_by_kind);
        self.windows.push(seen, figures, MANY);
        let wanted = possible(self.wanted.unwrap_or(self.windows.placement()), seen);
        if let Some(found) = self.give_back(seen.limits, wanted) {
            return found;
        }
        let windows = self.windows.len();
        if windows < FEW {
            return (Reason::Measuring { windows, needed: FEW }, Some(self.windows.medians(windows)));
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

    /// Forgets the measurements with workers of other kinds: the rate of five fast workers says nothing of five slow ones.
    fn note_unit(&mut self, unit: &[f64]) {
        if unit.iter().sum::<f64>() <= 0.0 {
            return;
        }
        let share = |of: &[f64], kind: usize| of.get(kind).copied().unwrap_or(0.0) / of.iter().sum::<f64>();
        let moved = |kind| (share(unit, kind) - share(&self.unit, kind)).abs();
        let is_known = !self.unit.is_empty();
        let is_other = (0..unit.len()).map(moved).sum::<f64>() > 2.0 * OTHER_UNIT;
        if is_known && is_other {
            (self.tried, self.is_shared) = (None, false);
            self.windows.clear();
        }
        if !is_known || is_other {
            self.unit = unit.to_vec();
        }
    }

    /// The trainer misses cores, or takes them: what the newest window says is done at once, unlike all else.
    fn give_back(&mut self, limits: Limits, wanted: Placement) -> Option<Found> {
        let host = self.windows.host()?;
        let (spare, pressure) = (host.spare, host.pressure);
        let is_pressed = pressure > PRESSURE_MAX && host.cores > 0.0;
        let local = left(wanted.local, spare, pressure);
        let lightest = self.lightest_cut(wanted.cut).filter(|_| is_pressed);
        if local >= wanted.local && lightest.is_none() {
            return None;
        }
        self.cut_only = lightest.map(|cut| (cut, self.windows.room(1))).or(self.cut_only);
        // Threads that it did not have are none that it gave back.
        let local = Some(local).filter(|local| *local < wanted.local);
        Some(self.yield_to(limits, local, spare, Reason::Yields { spare, pressure }))
    }

    /// Leaves the reader's machine so many threads, if some are given back, and has workers make the rest.
    fn yield_to(&mut self, limits: Limits, local: Option<u32>, spare: f64, reason: Reason) -> Found {
        let count = FEW.min(self.windows.len());
        let figures = Figures { spare, ..self.windows.medians(count) };
        let mut model = self.windows.model(count, self.efficiency);
        model.machine = self.windows.host().and_then(|host| Host { spare, ..host.clone() }.machine());
        (self.local_max, self.based_spare) = (local.or(self.local_max), spare);
        (self.based, self.tried, self.too_few) = ((self.windows.load(count), 1), None, None);
        let target = self.target(limits, &model);
        self.change(limits, target, 0, &figures, reason)
    }

    /// Asks for another placement; where the limits leave none, says so.
    fn change(&mut self, limits: Limits, to: Target, probes: u32, figures: &Figures, reason: Reason) -> Found {
        let wanted = Placement { workers: limits.clamp(to.at.workers), ..to.at };
        if self.wanted != Some(wanted) {
            self.windows.clear();
        }
        (self.wanted, self.phase) = (Some(wanted), Phase::Confirming(probes));
        let needed = to.needed.max(to.at.workers);
        let reason = if needed > limits.max { Reason::AtMost { needed, limit: limits.max } } else { reason };
        (reason, Some(*figures))
    }

    fn settle(&mut self, figures: &Figures, reason: Reason) -> Found {
        self.phase = Phase::Settled(figures.waited);
        // What was measured with another placement is gone, if there is one now.
        let load = if self.windows.len() > 0 { self.windows.load(FEW) } else { figures.load() };
        self.based = (load, 1);
        (reason, Some(*figures))
    }
}
