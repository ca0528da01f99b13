//! Where a job came to rest: the start of the next job on the same samples. Plain figures, to be stored for longer than
//! a job lasts.
//!
//! Invariant: every figure is finite, so that stored figures are read back unchanged.

use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::{Mark, Phase, Previous};
use crate::placement::Placement;
use crate::scaling::decision::{Decision, Reason};

/// A placement that was right, and the figures learned before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    at: Placement,
    /// The share of a worker's computing time that reaches the trainer.
    efficiency: f64,
    /// The load for which it was found, in workers, the windows that this is the mean of, and the spare cores.
    based: (f64, u32),
    based_spare: f64,
    /// The placement that was too little.
    too_few: Option<Mark>,
}

impl SteadyState {
    /// Returns the resting place of a job; `None` before it rests.
    pub(super) fn of(policy: &Previous) -> Option<Self> {
        let at = policy.wanted.filter(|_| matches!(policy.phase, Phase::Settled(_)))?;
        let Previous { efficiency, based, based_spare, too_few, .. } = *policy;
        Some(Self { at, efficiency, based, based_spare, too_few }).filter(Self::is_finite)
    }

    /// Returns the start of a job: the placement, to be confirmed, and the learned figures. A load that is another one
    /// is followed as always.
    pub fn begin(&self) -> (Decision, Previous) {
        let Self { at, efficiency, based, based_spare, too_few } = *self;
        let next = Previous {
            wanted: Some(at),
            phase: Phase::Confirming(0),
            windows: Memory::default(),
            efficiency,
            based,
            based_spare,
            local_max: None,
            cut_only: None,
            unit: Vec::new(),
            tried: None,
            too_few,
            is_shared: false,
            is_ahead: false,
        };
        let Placement { workers, local, cut } = at;
        (Decision { workers, local, cut: Some(cut), reason: Reason::Again, figures: None }, next)
    }

    fn is_finite(&self) -> bool {
        let mark = self.too_few.map_or([0.0; 3], |mark| [mark.load, mark.demand, mark.remote]);
        [self.efficiency, self.based.0, self.based_spare].iter().chain(&mark).all(|figure| figure.is_finite())
    }
}
