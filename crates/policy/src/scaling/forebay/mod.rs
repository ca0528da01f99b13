//! Forebay's own policy: measure the demand and the rate of one worker, solve for the placement, confirm it with a
//! probe or two, and keep watching.
//!
//! Without figures of the reader's machine, or if nothing may compute there, the placement is a number of workers: one
//! policy, not two.
//! Invariants: at most [`PROBES_MAX`] changes follow the first one at the same load; the policy does not go back to a
//! placement that was too little before the load has fallen; it gives back cores that the trainer lacks in the window
//! that shows it, from threads and from the cut, and takes them again only when there are more; without figures nothing
//! changes; the result is within the limits.

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

/// The share added to the demand before solving.
pub const MARGIN: f64 = 0.01;
/// The share of its time for which a trainer may wait with a right placement.
pub const WAIT_MAX: f64 = 0.02;
/// The share of waits from which a confirmed placement is no longer right.
pub const WAIT_AGAIN: f64 = 0.05;
/// The share of waits from which workers cannot keep up, so that the delivered rate is theirs.
pub const SATURATED: f64 = 0.10;
/// The most changes after the first one at the same load.
pub const PROBES_MAX: u32 = 3;
/// The factor, up or down, from which a load is another load, and from which more spare cores are worth another look.
pub const CHANGE: f64 = 1.6;
/// The share of its time in which a trainer may lack a core before threads on its machine give theirs back.
pub const PRESSURE_MAX: f64 = 0.10;
/// The share of their requested cores below which threads give some back. Figures that are off by a fifth, once too
/// high and once too low, stay above it.
pub const YIELD: f64 = 0.6;
/// The share of the limits of wire and threads from which these may be full, so that the workers need not be slow.
const FULL: f64 = 0.95;
/// The ratio of made to received batches from which workers are ahead of a reader that waits for the next split in its
/// order. Figures that are off by a fifth, over a few windows, stay below it.
const AHEAD: f64 = 1.25;
/// Less of a core than this counts as none.
const NO_CORE: f64 = 0.1;
/// The share of the trainer's own speed below which threads on its machine are considered to slow it down.
const SUFFERS: f64 = 0.75;
/// The share of the reader's work at another cut below which that cut counts as lighter: figures that are off by some
/// percent move the cut once at most.
const LIGHTER: f64 = 0.8;
/// The share of the price that another placement must save to be tried.
const CHEAPER: f64 = 0.02;
/// The same as [`CHANGE`], while the earlier load is known from few windows.
const CHANGE_EARLY: f64 = 2.2;
/// The factor by which the load, over many windows, must be below that of the placement before less is enough.
const SLACK: f64 = 1.2;
/// The share of a unit's threads that may be of other types before it is another unit.
const OTHER_UNIT: f64 = 0.1;
/// The share of the expected gain below which more workers do not help.
const USEFUL: f64 = 0.5;
/// The bounds of the share of a worker's computing time that reaches the trainer.
const EFFICIENCY: (f64, f64) = (0.2, 1.25);
/// Windows from which a placement is found or confirmed, from which a change is noticed, and that are stored.
const FEW: usize = 3;
const SOME: usize = 5;
const MANY: usize = 15;

/// The phase of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// There are no results yet.
    Learning,
    /// A placement was found, and is being confirmed, after so many probes.
    Confirming(u32),
    /// The placement is right, or as right as possible; the share of the trainer's waits then.
    Settled(f64),
}

/// A placement, and its measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Mark {
    at: Placement,
    /// The load, in workers.
    load: f64,
    /// Batches a second that the trainer would have taken, and that workers brought.
    demand: f64,
    remote: f64,
}

/// The solution within the limits, and the workers that it would need without them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Target {
    at: Placement,
    needed: u32,
}

/// The state between windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// `None` keeps the present placement.
    wanted: Option<Placement>,
    phase: Phase,
    /// The windows since the last change of the placement.
    windows: Memory,
    /// The share of a worker's computing time that reaches the trainer.
    efficiency: f64,
    /// The load for which the placement was found, in workers, and the windows that it is the mean of.
    based: (f64, u32),
    /// The spare cores for which it was found.
    based_spare: f64,
    /// The most threads on the reader's machine, once they had to give some back.
    local_max: Option<u32>,
    /// The only allowed cut, once the trainer lacked cores, or became slower, while its process ran ops that workers
    /// can run; and the spare cores then, with those that these ops took.
    cut_only: Option<(u32, f64)>,
    /// The threads of one worker by type, when marks began to be compared.
    unit: Vec<f64>,
    /// The placement before the last change.
    tried: Option<Mark>,
    /// The placement that was too little.
    too_few: Option<Mark>,
    /// Whether more workers bring nothing more.
    is_shared: bool,
    /// Whether the last waits were for the next split, with later ones ready.
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

/// The name by which a user chooses it.
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

/// Decides after one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let (reason, figures) = next.step(seen);
    // A job needs one worker at least to begin.
    let workers = if seen.local == 0 { seen.workers.max(1) } else { seen.workers };
    let there = Placement { workers, local: seen.local, cut: seen.host.as_ref().map_or(1, |host| host.cut) };
    let Placement { workers, local, cut } = possible(next.wanted.unwrap_or(there), seen);
    let cut = seen.host.as_ref().filter(|host| host.cuts.len() > 1).map(|_| cut);
    (Decision { workers, local, cut, reason, figures }, next)
}

/// Returns how many of the `threads` on the reader's machine may stay, with `spare` idle cores and a trainer that
/// lacked a core for the share `pressure` of its time. The machine that runs them calls this more often than once a
/// window.
pub fn left(threads: u32, spare: f64, pressure: f64) -> u32 {
    // The last thread may get only a part of a core.
    let is_short = spare < (YIELD * f64::from(threads.saturating_sub(1))).max(NO_CORE);
    let is_pressed = pressure > PRESSURE_MAX;
    match (is_short, is_pressed) {
        (false, false) => threads,
        _ if spare < NO_CORE => 0,
        (_, is_pressed) => (if is_pressed { threads / 2 } else { threads }).min(spare.ceil() as u32),
    }
}

/// Returns the allowed part of a placement: one found by another job, or by this one before a reader left, may be too
/// much.
fn possible(at: Placement, seen: &Observation) -> Placement {
    let (local_max, cuts) = seen.host.as_ref().map_or((0, 1), |host| (host.local_max, host.cuts.len() as u32));
    Placement { workers: seen.limits.clamp(at.workers), local: at.local.min(local_max), cut: at.cut.min(cuts) }
}

/// Returns the first decision of a job without measurements, from a `model` of what jobs on the same samples showed,
/// with its `figures`. The policy confirms it.
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

    /// Forgets the measurements with workers of other types: the rate of five fast workers predicts nothing for five
    /// slow ones.
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

    /// Gives cores back if the trainer lacks some. This rule acts on the newest window at once, unlike all others.
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
        // Without a thread to give back, the limit on threads stays.
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

    /// Requests another placement; if the limits leave none, the reason says so.
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
        // After a change, the windows with the old placement are gone.
        let load = if self.windows.len() > 0 { self.windows.load(FEW) } else { figures.load() };
        self.based = (load, 1);
        (reason, Some(*figures))
    }
}
