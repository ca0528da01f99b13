//! What was measured on the reader's machine, and of the ops: what it takes to place work there.

use std::sync::Arc;

use crate::placement::{CUTS_MAX, Cut, Machine, Manners, Objective, Wire};

/// The reader's machine in one window. With [`Host::local_max`] 0 and one cut, there is nothing to place: workers alone are
/// decided on, as without it.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Cores of the machine.
    pub cores: f64,
    /// Cores, on average, that nobody wanted but the reader's threads that compute: what these had counts as spare.
    pub spare: f64,
    /// The share of its time that the trainer could have run and had no core, 0 to 1 (as Linux's pressure stall figures say).
    pub pressure: f64,
    /// Threads that may compute there, at most.
    pub local_max: u32,
    /// Batches a second that they made whole.
    pub here: f64,
    /// What each op costs, as the places where the pipeline may be cut.
    pub cuts: Arc<[Cut]>,
    /// Ops that ran on the workers.
    pub cut: u32,
    /// What it takes to send.
    pub wire: Wire,
    /// What is to be made small.
    pub objective: Objective,
}

impl Host {
    /// Says whether its figures can all be right.
    pub(crate) fn is_sound(&self) -> bool {
        let amount = |x: f64| x.is_finite() && x >= 0.0;
        let amounts = [self.cores, self.spare, self.here, self.wire.send, self.wire.receive];
        let of_cut = |cut: &Cut| amount(cut.before) && amount(cut.after) && amount(cut.bytes);
        let ops = self.cuts.len();
        amounts.into_iter().all(amount)
            && self.cores > 0.0
            && (0.0..=1.0).contains(&self.pressure)
            && self.wire.bandwidth.is_none_or(|limit| limit > 0.0)
            && (1..=CUTS_MAX).contains(&ops)
            && (1..=ops).contains(&(self.cut as usize))
            && self.cuts.iter().all(of_cut)
            && self.cuts.last().is_some_and(|last| last.before > 0.0)
            && self.objective.check().is_ok()
    }

    /// Returns the machine, as threads that take only what is spare see it.
    pub(crate) fn machine(&self) -> Machine {
        let used = (self.cores - self.spare).max(0.0);
        Machine { cores: self.cores, used, manners: Manners::SpareOnly, interference: 0.0 }
    }
}
