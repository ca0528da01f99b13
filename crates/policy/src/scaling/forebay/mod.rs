//! Forebay's own policy: measure the demand and the rate of one worker, solve for the placement, confirm it with a
//! probe or two, and keep watching.
//!
//! Without figures of the reader's machine, or if nothing may compute there, the placement is a number of workers: one
//! policy, not two.
//! Invariants: at most [`PROBES_MAX`] changes follow the first one at the same load; the policy does not go back to a
//! placement that was too little before the load has fallen; it gives back cores that the trainer lacks in the window
//! that shows it, from threads and from the cut, and takes them again only when there are more; without figures nothing
//! changes; the result is within the limits.

mod changes;
mod memory;
mod phases;
mod rest;
mod solving;
mod state;
#[cfg(test)]
mod tests;
mod thresholds;

use super::{Choice, Decision, Figures, Limits, Observation, Reason, ScalingPolicy, Start, SteadyState};
use crate::placement::{Bounds, Model, Objective, Placement, solve};
use state::{Found, Phase};
use thresholds::{FEW, MANY};

pub use changes::left;
pub use state::Previous;
pub use thresholds::{CHANGE, MARGIN, PRESSURE_MAX, PROBES_MAX, SATURATED, WAIT_AGAIN, WAIT_MAX, YIELD};

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
        self.rest()
    }

    fn resume(&self, at: &SteadyState) -> Option<Start> {
        let (decision, next) = Self::from_rest(at);
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
}
