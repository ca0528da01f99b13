//! The machines of a job's readers, where they say what these have to spare: to a policy, one with the cores of all of them.
//!
//! What workers send is finished by the readers' own processes. What a batch takes workers is measured as a whole; by how much that
//! would be more or less with another cut, the figures of ops say. Pure.

use forebay_policy::placement::{Finishing, Objective, Wire};
use forebay_policy::scaling::Host;
use forebay_proto::Spare;

use super::cuts::Costs;

/// Thousandths of a core, or of the time.
const MILLI: f64 = 1000.0;
/// More than any machine has.
pub(super) const MILLICORES_MAX: u32 = 1 << 24;
/// Seconds of a core for a byte that goes over a network, on each side: what the plain connection was measured to take.
const NETWORK: f64 = 0.5e-9;

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
        self.millicores += u64::from(spare.millicores.min(MILLICORES_MAX));
        self.pressure += u64::from(spare.pressure.min(MILLI as u32));
        self.said += 1;
        self.limit_millicores = spare.limit_millicores.min(MILLICORES_MAX);
    }

    pub(super) fn is_said(&self) -> bool {
        self.said > 0
    }

    fn mean(&self, sum: u64) -> f64 {
        sum as f64 / MILLI / self.said.max(1) as f64
    }
}

/// Batches that were made in a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    /// A second, by threads at readers whose number is decided on, and by workers.
    pub(super) here: f64,
    pub(super) remote: f64,
    /// Rows of one.
    pub(super) rows: f64,
    /// What one takes workers: seconds of one thread. `None` while that is not known.
    pub(super) compute: Option<f64>,
}

/// What it takes to send a byte of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent(Wire);

impl Sent {
    /// Of a row's bytes, so many came over a network; the others were lent.
    pub(super) fn new(received: f64, row_bytes: f64) -> Self {
        let share = if row_bytes > 0.0 { (received / row_bytes).min(1.0) } else { 0.0 };
        Self(Wire { send: NETWORK * share, receive: NETWORK * share, bandwidth: None })
    }

    /// Returns seconds of a worker's thread for so many bytes.
    pub(super) fn by_worker(&self, bytes: f64) -> f64 {
        self.0.send * bytes
    }
}

/// Returns the machines as one. `None` where there is nothing to say of them, nothing to choose, and nothing that a policy could not
/// take for granted.
pub(super) fn as_one(
    machines: &[Spared],
    made: &Made,
    costs: &Costs,
    sent: &Sent,
    objective: Objective,
) -> Option<Host> {
    let said = || machines.iter().filter(|machine| machine.is_said());
    let is_told = said().next().is_some();
    if !is_told && objective == Objective::Time && costs.len() == 1 {
        return None;
    }
    let limit: f64 = said().map(|machine| f64::from(machine.limit_millicores) / MILLI).sum();
    let (after, bytes) = costs.now();
    Some(Host {
        cores: if is_told { limit.max(1.0) } else { 0.0 },
        spare: said().map(|machine| machine.mean(machine.millicores)).sum::<f64>().min(limit),
        pressure: said().map(|machine| machine.mean(machine.pressure)).fold(0.0, f64::max),
        local_max: said().map(|machine| (machine.limit_millicores / MILLI as u32).max(1)).fold(0, u32::saturating_add),
        here: made.here,
        cuts: costs.of_batch(made.rows, made.compute.unwrap_or(0.0)),
        cut: costs.number(),
        wire: sent.0,
        finishing: Finishing::Reader,
        finishes: made.remote * made.rows * (after + sent.0.receive * bytes),
        objective,
    })
}

#[cfg(test)]
mod tests {
    use super::super::cuts::Cuts;
    use super::*;

    #[test]
    fn machines_that_say_nonsense_overflow_nothing() {
        let mut machine = Spared::default();
        machine.add(&Spare { millicores: u32::MAX, limit_millicores: u32::MAX, pressure: u32::MAX, threads: u32::MAX });
        let costs = Cuts::default().costs(&[]);
        let (made, sent) = (Made { here: 0.0, remote: 0.0, rows: 1.0, compute: Some(1.0) }, Sent::new(0.0, 1.0));
        let one = as_one(&vec![machine; 1 << 19], &made, &costs, &sent, Objective::Time).expect("they say something");
        assert_eq!((one.local_max, one.pressure), (u32::MAX, 1.0));
    }
}
