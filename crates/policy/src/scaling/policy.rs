//! The seam of scaling policies: the trait of a policy, and a line in a table of policies.
//!
//! A new policy is one file with an `impl ScalingPolicy` and one line in a table of [`Choice`]s:
//! [`CHOICES`](super::CHOICES) for the service, `policy-lab`'s for simulations.

use std::fmt;

use super::decision::{Decision, Figures};
use super::{Limits, Observation, SteadyState};
use crate::placement::{Manners, Model, Objective, Placement};

/// Decides how many workers one job gets, window by window, and keeps its state of this job.
///
/// A policy is pure: equal observations give equal decisions. It uses no clock, no randomness and no I/O.
pub trait ScalingPolicy: fmt::Debug + Send + Sync {
    /// Decides on one more window of the job.
    fn decide(&mut self, seen: &Observation) -> Decision;

    /// Returns a copy, with all that it remembers.
    fn boxed(&self) -> Box<dyn ScalingPolicy>;

    /// Returns where the job is at rest. `None` while it is not, and for a policy that begins every job alike.
    fn steady_state(&self) -> Option<SteadyState> {
        None
    }

    /// Begins a job where an earlier job on the same samples came to rest. `None` if the policy begins every job alike.
    fn resume(&self, _at: &SteadyState) -> Option<Start> {
        None
    }

    /// Begins a job of which `model` predicts the costs, from the `figures` in it. `None` if the policy begins every
    /// job alike.
    fn begin(&self, _model: &Model, _figures: Figures, _limits: Limits, _objective: &Objective) -> Option<Start> {
        None
    }

    /// Returns whether it minimises the user's objective. A policy that does not is refused any but
    /// [`Objective::Time`].
    fn has_objectives(&self) -> bool {
        false
    }

    /// Returns its placement if that is fixed. `None` for a policy that decides from observations. A boundary of
    /// `u32::MAX` is behind the last op.
    fn fixed(&self) -> Option<Placement> {
        None
    }

    /// Returns how its threads on the trainer's machine share the cores, for simulations.
    fn manners(&self) -> Manners {
        Manners::SpareOnly
    }
}

/// The first decision of a job, and the policy that takes the next ones.
pub type Start = (Decision, Box<dyn ScalingPolicy>);

impl Clone for Box<dyn ScalingPolicy> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// One line in a table of policies.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// How a user writes it, for hints: `static:N with N from 1 on`.
    pub usage: &'static str,
    /// Returns the policy for a job that begins. `None` if the text names another one.
    pub parse: fn(&str) -> Option<Box<dyn ScalingPolicy>>,
}
