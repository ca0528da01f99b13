//! The machines of a job's readers, where they say what these have to spare: to a policy, one with the cores of all of them.
//!
//! Workers compute whole splits, so there is one op, and nowhere to cut; what it takes to send is not known, and taken for nothing.
//! Pure.

use std::sync::Arc;

use forebay_policy::placement::{Cut, Objective, Wire};
use forebay_policy::scaling::Host;
use forebay_proto::Spare;

/// Thousandths of a core, or of the time.
const MILLI: f64 = 1000.0;

/// What one machine had to spare in a window: sums over the times that it was said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spared {
    millicores: u64,
    pressure: u64,
    said: u64,
    /// As it was said last.
    limit_millicores: u32,
}

impl Spared {
    pub(super) fn add(&mut self, spare: &Spare) {
        self.millicores += u64::from(spare.millicores);
        self.pressure += u64::from(spare.pressure.min(MILLI as u32));
        self.said += 1;
        self.limit_millicores = spare.limit_millicores;
    }

    pub(super) fn is_said(&self) -> bool {
        self.said > 0
    }

    fn mean(&self, sum: u64) -> f64 {
        sum as f64 / MILLI / self.said.max(1) as f64
    }
}

/// Returns the machines as one, whose threads made `here` batches a second, where a batch takes `compute` seconds of one thread;
/// `None` where there is nothing to say of them that a policy could not take for granted.
pub(super) fn as_one(machines: &[Spared], here: f64, compute: Option<f64>, objective: Objective) -> Option<Host> {
    let said = || machines.iter().filter(|machine| machine.is_said());
    if said().next().is_none() && objective == Objective::Time {
        return None;
    }
    let limit: f64 = said().map(|machine| f64::from(machine.limit_millicores) / MILLI).sum();
    Some(Host {
        cores: limit.max(1.0),
        spare: said().map(|machine| machine.mean(machine.millicores)).sum::<f64>().min(limit),
        pressure: said().map(|machine| machine.mean(machine.pressure)).fold(0.0, f64::max),
        local_max: said().map(|machine| (machine.limit_millicores / MILLI as u32).max(1)).sum(),
        here,
        cuts: Arc::from([Cut { before: compute.unwrap_or(0.0), after: 0.0, bytes: 0.0 }]),
        cut: 1,
        wire: Wire::default(),
        objective,
    })
}
