//! The measurements of the reader's machine, and of the ops, that placement needs.

use std::sync::Arc;

use crate::placement::{CUTS_MAX, Cut, Finishing, Machine, Manners, Objective, Wire};

/// The largest share of time without a core that a trainer is assumed to have, when its use of cores is estimated.
const PRESSURE_MAX: f64 = 0.5;

/// The reader's machine in one window. If [`Host::local_max`] is 0 and there is one cut, the policy decides on workers
/// alone, as without a machine. If it is 0 and there are more cuts, the policy decides on these, by the spare cores of
/// the reader's process.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Cores of the machine; 0 if unknown.
    pub cores: f64,
    /// Mean cores that were idle or used by the reader's computing threads.
    pub spare: f64,
    /// The share of its time in which the trainer was runnable and had no core, 0 to 1 (as in Linux's pressure stall
    /// figures).
    pub pressure: f64,
    /// The most threads that may compute there.
    pub local_max: u32,
    /// Whole batches a second that these threads made.
    pub here: f64,
    /// The cost of each op, as the places where the pipeline may be cut.
    pub cuts: Arc<[Cut]>,
    /// Ops that ran on the workers.
    pub cut: u32,
    /// The cost of sending.
    pub wire: Wire,
    /// Where the rows that workers send are finished, and the cores that the reader's process used for it, if it does
    /// that.
    pub finishing: Finishing,
    /// See `finishing`. These cores are not counted in `spare`.
    pub finishes: f64,
    /// The objective to minimise.
    pub objective: Objective,
}

impl Host {
    /// Returns whether all figures are possible.
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

    /// Returns the share of its time in which finishing received rows did not hold up the trainer: in the other share
    /// the trainer would work, and use cores, too. If finishing uses few of the cores, the trainer lacks them for
    /// another reason.
    pub(crate) fn freely(&self) -> f64 {
        if self.finishing != Finishing::Reader || !self.has_choice() {
            return 1.0;
        }
        1.0 - self.pressure.min(PRESSURE_MAX).min(self.finishes / self.cores)
    }

    fn has_choice(&self) -> bool {
        self.local_max > 0 || self.cuts.len() > 1
    }

    /// Returns the machine as threads at idle priority see it; `None` if it has no figures, or there is nothing to
    /// place.
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
