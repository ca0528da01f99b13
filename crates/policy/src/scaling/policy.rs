//! The seam of scaling policies: what a policy is, and how a user chooses one by name.
//!
//! A new policy is one file with an `impl ScalingPolicy` and one line in a table of [`Choice`]s: [`CHOICES`] for the
//! service, `policy-lab`'s for simulations.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Error, Result};

use super::decision::{Decision, Figures};
use super::forebay::SteadyState;
use super::{Limits, Observation, fixed, forebay};
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

/// The policies of a service.
pub const CHOICES: &[Choice] = &[forebay::CHOICE, fixed::CHOICE];

/// A chosen policy: its name as the user wrote it, and its state for a job that begins. Default: `forebay`.
#[derive(Debug, Clone)]
pub struct Policy {
    name: String,
    initial: Box<dyn ScalingPolicy>,
}

impl Policy {
    /// Makes a policy that need not be in a table of choices.
    pub fn new(name: impl Into<String>, initial: Box<dyn ScalingPolicy>) -> Self {
        Self { name: name.into(), initial }
    }

    /// Makes `static:N`: so many workers, whatever happens.
    pub fn fixed(workers: u32) -> Self {
        Self::new(format!("static:{workers}"), Box::new(fixed::Fixed { workers }))
    }

    /// Finds a policy by its name.
    ///
    /// # Errors
    /// Invalid, with all usages, if none of the tables has it.
    pub fn parse(text: &str, tables: &[&[Choice]]) -> Result<Self> {
        let choices = || tables.iter().copied().flatten();
        let found = choices().find_map(|choice| (choice.parse)(text));
        found.map(|initial| Self::new(text, initial)).ok_or_else(|| {
            let usages: Vec<_> = choices().map(|choice| choice.usage).collect();
            Error::invalid(format!("{text:?} is no policy")).hint(format!("use {}", usages.join(", or ")))
        })
    }

    /// Returns the policy for a job that begins.
    pub fn start(&self) -> Box<dyn ScalingPolicy> {
        self.initial.boxed()
    }

    /// Returns the policy for a job that begins, to ask for its properties.
    pub fn initial(&self) -> &dyn ScalingPolicy {
        &*self.initial
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new("forebay", Box::new(forebay::Previous::default()))
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, &[CHOICES])
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_refused() {
        for name in ["forebay", "static:7"] {
            assert_eq!(name.parse::<Policy>().expect("a policy").to_string(), name);
        }
        assert_eq!(Policy::fixed(7), "static:7".parse().expect("a policy"));
        for name in ["", "static", "static:", "static:0", "static:-1", "static:x", "cachew", "Forebay"] {
            let error = name.parse::<Policy>().expect_err("refused").to_string();
            assert!(error.contains("use forebay, or static:N with N from 1 on"), "{error}");
        }
    }
}
