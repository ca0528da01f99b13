//! What was measured on the reader's machine, and of the ops: what it takes to place work there.

use std::sync::Arc;

use crate::placement::{CUTS_MAX, Cut, Finishing, Machine, Manners, Objective, Wire};

/// The most of its time that a trainer is held to have no core, where it is asked what it would do with one.
const PRESSURE_MAX: f64 = 0.5;

/// The reader's machine in one window. With [`Host::local_max`] 0 and one cut, there is nothing to place: workers alone are
/// decided on, as without it. With it 0 and more cuts, these are decided on, by what the reader's process has to spare for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Cores of the machine; 0 where nothing is told of it.
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
    /// Who finishes what workers send, and the cores that the reader's process took for it, where it does that.
    pub finishing: Finishing,
    /// See `finishing`. They are not among the spare ones.
    pub finishes: f64,
    /// What is to be made small.
    pub objective: Objective,
}

impl Host {
    /// Says whether its figures can all be right.
    pub(crate) fn is_sound(&self) -> bool {
        let amount = |x: f64| x.is_finite() && x >= 0.0;
        let amounts = [self.cores, self.spare, self.here, self.finishes, self.wire.send, self.wire.receive];
        let of_cut = |cut: &Cut| amount(cut.before) && amount(cut.after) && amount(cut.bytes);
        let ops = self.cuts.len();
        amounts.into_iter().all(amount)
            && (0.0..=1.0).contains(&self.pressure)
            && self.wire.bandwidth.is_none_or(|limit| limit > 0.0)
            && (1..=CUTS_MAX).contains(&ops)
            && (1..=ops).contains(&(self.cut as usize))
            && self.cuts.iter().all(of_cut)
            && self.cuts.last().is_some_and(|last| last.before > 0.0)
            && self.objective.check().is_ok()
    }

    /// Returns the part of its time that a trainer whose process finishes what is sent was not held up by that: the other part it would
    /// work, and use cores, too. Where that takes few of the cores, it is something else that the trainer lacks them for.
    pub(crate) fn freely(&self) -> f64 {
        if self.finishing != Finishing::Reader || !self.has_choice() {
            return 1.0;
        }
        1.0 - self.pressure.min(PRESSURE_MAX).min(self.finishes / self.cores)
    }

    fn has_choice(&self) -> bool {
        self.local_max > 0 || self.cuts.len() > 1
    }

    /// Returns the machine, as threads that take only what is spare see it; `None` where nothing is told of it, or nothing to be placed.
    pub(crate) fn machine(&self) -> Option<Machine> {
        let used = (self.cores - self.spare - self.finishes).max(0.0) / self.freely();
        (self.cores > 0.0 && self.has_choice()).then_some(Machine {
            cores: self.cores,
            used: used.min(self.cores),
            manners: Manners::SpareOnly,
            interference: 0.0,
        })
    }
}
