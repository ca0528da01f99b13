//! Where a job came to rest: what the next one on the same samples begins with. Plain figures, for whoever keeps them for longer than
//! a job lasts.
//!
//! Invariant: every figure is finite, so that what is written down is what is read.

use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::{Mark, Phase, Previous};
use crate::placement::Placement;
use crate::scaling::decision::{Decision, Reason};

/// A placement that was right, and what was learned on the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    at: Placement,
    /// What of a worker's computing time reaches the trainer.
    efficiency: f64,
    /// Workers' worth of work that it was found for, the windows that this is the mean of, and spare cores.
    based: (f64, u32),
    based_spare: f64,
    /// What was too little.
    too_few: Option<Mark>,
}

impl SteadyState {
    /// Returns where the job is at rest; `None` while it is not.
    pub(super) fn of(policy: &Previous) -> Option<Self> {
        let at = policy.wanted.filter(|_| matches!(policy.phase, Phase::Settled(_)))?;
        let Previous { efficiency, based, based_spare, too_few, .. } = *policy;
        Some(Self { at, efficiency, based, based_spare, too_few }).filter(Self::is_finite)
    }

    /// Returns what a job begins with: the placement, to be confirmed, and what was learned on the way. A load that is another one
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
