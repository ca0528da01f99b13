//! Where a job came to rest: the start of the next job on the same samples. Plain figures, to be stored for longer than
//! a job lasts.
//!
//! Invariant: every figure is finite, so that stored figures are read back unchanged.

use serde::{Deserialize, Serialize};

use crate::placement::Placement;

/// A placement, and its measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) at: Placement,
    /// The load, in workers.
    pub(super) load: f64,
    /// Batches a second that the trainer would have taken, and that workers brought.
    pub(super) demand: f64,
    pub(super) remote: f64,
}

/// A placement that was right, and the figures learned before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    pub(super) at: Placement,
    /// The share of a worker's computing time that reaches the trainer.
    pub(super) efficiency: f64,
    /// The load for which it was found, in workers, the windows that this is the mean of, and the spare cores.
    pub(super) based: (f64, u32),
    pub(super) based_spare: f64,
    /// The placement that was too little.
    pub(super) too_few: Option<Mark>,
}

impl SteadyState {
    /// Returns whether it can be stored.
    pub(super) fn is_finite(&self) -> bool {
        let mark = self.too_few.map_or([0.0; 3], |mark| [mark.load, mark.demand, mark.remote]);
        [self.efficiency, self.based.0, self.based_spare].iter().chain(&mark).all(|figure| figure.is_finite())
    }
}
