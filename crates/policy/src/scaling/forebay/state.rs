//! The state of the policy between windows.

use super::memory::Memory;
use crate::placement::Placement;
use crate::scaling::decision::{Figures, Reason};
use crate::scaling::steady_state::Mark;

/// The phase of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// There are no results yet.
    Learning,
    /// A placement was found, and is being confirmed, after so many probes.
    Confirming(u32),
    /// The placement is right, or as right as possible; the share of the trainer's waits then.
    Settled(f64),
}

/// The solution within the limits, and the workers that it would need without them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    pub(super) at: Placement,
    pub(super) needed: u32,
}

/// The state between windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// `None` keeps the present placement.
    pub(super) wanted: Option<Placement>,
    pub(super) phase: Phase,
    /// The windows since the last change of the placement.
    pub(super) windows: Memory,
    /// The share of a worker's computing time that reaches the trainer.
    pub(super) efficiency: f64,
    /// The load for which the placement was found, in workers, and the windows that it is the mean of.
    pub(super) based: (f64, u32),
    /// The spare cores for which it was found.
    pub(super) based_spare: f64,
    /// The most threads on the reader's machine, once they had to give some back.
    pub(super) local_max: Option<u32>,
    /// The only allowed cut, once the trainer lacked cores, or became slower, while its process ran ops that workers
    /// can run; and the spare cores then, with the cores that these ops took.
    pub(super) cut_only: Option<(u32, f64)>,
    /// The threads of one worker by type, when marks began to be compared.
    pub(super) unit: Vec<f64>,
    /// The placement before the last change.
    pub(super) tried: Option<Mark>,
    /// The placement that was too little.
    pub(super) too_few: Option<Mark>,
    /// Whether more workers bring nothing more.
    pub(super) is_shared: bool,
    /// Whether the last waits were for the next split, with later ones ready.
    pub(super) is_ahead: bool,
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

/// The reason of a decision, and its figures.
pub(super) type Found = (Reason, Option<Figures>);
