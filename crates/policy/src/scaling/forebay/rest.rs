//! Where a job came to rest, and the start of the next job on the same samples.

use super::state::{Phase, Previous};
use crate::placement::Placement;
use crate::scaling::SteadyState;
use crate::scaling::decision::{Decision, Reason};

impl Previous {
    /// Returns the resting place of a job; `None` before it rests.
    pub(super) fn rest(&self) -> Option<SteadyState> {
        let at = self.wanted.filter(|_| matches!(self.phase, Phase::Settled(_)))?;
        let Previous { efficiency, based, based_spare, too_few, .. } = *self;
        Some(SteadyState { at, efficiency, based, based_spare, too_few }).filter(SteadyState::is_finite)
    }

    /// Returns the start of a job: the placement, to be confirmed, and the learned figures. A load that is another one
    /// is followed as always.
    pub(super) fn from_rest(rest: &SteadyState) -> (Decision, Self) {
        let SteadyState { at, efficiency, based, based_spare, too_few } = *rest;
        let next = Self {
            wanted: Some(at),
            phase: Phase::Confirming(0),
            efficiency,
            based,
            based_spare,
            too_few,
            ..Self::default()
        };
        let Placement { workers, local, cut } = at;
        (Decision { workers, local, cut: Some(cut), reason: Reason::Again, figures: None }, next)
    }
}
