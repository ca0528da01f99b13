//! The spare capacity of the hosts of a job's consumers, combined to one host for the policy. Consumers on the same
//! host report the same idle cores, which count once; each of them has threads of its own.
//!
//! Consumers' processes run the ops behind the placement boundary. The time of a batch on workers is measured as a
//! whole; the op costs tell how it would change with another boundary. Pure.

use std::collections::BTreeMap;

use forebay_policy::placement::{Finishing, Objective, Wire};
use forebay_policy::scaling::Host;
use forebay_proto::Spare;

use super::boundary_costs::BoundaryCosts;
use crate::state::limits::MILLICORES_MAX;

/// Thousandths of a core, or of the time.
const MILLI: f64 = 1000.0;

/// The spare capacity that one consumer reported in a window: sums over its reports.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct SpareCapacity {
    /// Idle cores, and cores that the consumer's compute threads used.
    idle: u64,
    own: u64,
    pressure: u64,
    reports: u64,
    /// As last reported: the cores that the consumer may use, the id of its host, and whether it requests threads.
    limit_millicores: u32,
    machine: u64,
    asks: bool,
}

impl SpareCapacity {
    pub(in crate::state) fn add(&mut self, spare: &Spare) {
        let all = spare.millicores.min(MILLICORES_MAX);
        let own = spare.own_millicores.min(all);
        self.idle += u64::from(all - own);
        self.own += u64::from(own);
        self.pressure += u64::from(spare.pressure.min(MILLI as u32));
        self.reports += 1;
        self.limit_millicores = spare.limit_millicores.min(MILLICORES_MAX);
        (self.machine, self.asks) = (spare.machine, spare.asks);
    }

    fn is_reported(&self) -> bool {
        self.reports > 0
    }

    /// Returns whether the policy decides how many local threads compute for this consumer.
    pub(in crate::state) fn asks(&self) -> bool {
        self.asks
    }

    fn mean(&self, sum: u64) -> f64 {
        sum as f64 / MILLI / self.reports.max(1) as f64
    }
}

/// Batches that were made in a window.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct BatchesMade {
    /// Batches per second, by local threads whose number the policy decides, and by workers.
    pub(in crate::state) local: f64,
    pub(in crate::state) remote: f64,
    /// Rows in a batch.
    pub(in crate::state) rows: f64,
    /// Seconds of one worker thread for a batch; `None` while that is unknown.
    pub(in crate::state) compute: Option<f64>,
}

/// The CPU cost of sending a byte of rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct SendCost(Wire);

impl SendCost {
    /// Of `row_bytes`, the part `received` came over a network, at these seconds per byte for each end; the rest was
    /// lent in shared memory.
    pub(in crate::state) fn new(received: f64, row_bytes: f64, [send, receive]: [f64; 2]) -> Self {
        let share = if row_bytes > 0.0 { (received / row_bytes).min(1.0) } else { 0.0 };
        Self(Wire { send: send * share, receive: receive * share, bandwidth: None })
    }

    /// Returns the seconds of a worker's thread for sending `bytes` bytes.
    pub(in crate::state) fn by_worker(&self, bytes: f64) -> f64 {
        self.0.send * bytes
    }
}

/// The cores of one host, as all consumers on it report them.
#[derive(Debug, Clone, Copy, Default)]
struct HostCores {
    limit: f64,
    /// Sum over all consumers, which all report the same idle cores.
    idle: f64,
    consumers: f64,
    /// Sum over the compute threads of all consumers.
    own: f64,
    asks: bool,
}

impl HostCores {
    /// Returns the hosts, each of them once.
    fn of(consumers: &[SpareCapacity]) -> Vec<Self> {
        let (mut shared, mut alone): (BTreeMap<u64, Self>, Vec<Self>) = Default::default();
        for capacity in consumers.iter().filter(|capacity| capacity.is_reported()) {
            if capacity.machine == 0 {
                alone.push(Self::default().with(capacity));
            } else {
                let host = shared.entry(capacity.machine).or_default();
                *host = host.with(capacity);
            }
        }
        alone.extend(shared.into_values());
        alone
    }

    fn with(self, capacity: &SpareCapacity) -> Self {
        Self {
            limit: self.limit.max(f64::from(capacity.limit_millicores) / MILLI),
            idle: self.idle + capacity.mean(capacity.idle),
            consumers: self.consumers + 1.0,
            own: self.own + capacity.mean(capacity.own),
            asks: self.asks || capacity.asks,
        }
    }

    fn spare(&self) -> f64 {
        (self.idle / self.consumers + self.own).min(self.limit)
    }

    /// Returns how many local threads there may be on this host.
    fn threads(&self) -> u32 {
        if self.asks { (self.limit as u32).max(1) } else { 0 }
    }
}

/// Returns all hosts as one. `None` if a policy needs no host: no host is reported, there is no other boundary, and the
/// objective is time.
pub(in crate::state) fn combined(
    consumers: &[SpareCapacity],
    made: &BatchesMade,
    costs: &BoundaryCosts,
    sent: &SendCost,
    objective: Objective,
) -> Option<Host> {
    let hosts = HostCores::of(consumers);
    let is_reported = !hosts.is_empty();
    if !is_reported && objective == Objective::Time && costs.len() == 1 {
        return None;
    }
    let limit: f64 = hosts.iter().map(|host| host.limit).sum();
    let pressures = consumers.iter().map(|consumer| consumer.mean(consumer.pressure));
    let (after, bytes) = costs.current();
    Some(Host {
        cores: if is_reported { limit.max(1.0) } else { 0.0 },
        spare: hosts.iter().map(HostCores::spare).sum(),
        pressure: pressures.fold(0.0, f64::max),
        local_max: hosts.iter().map(HostCores::threads).fold(0, u32::saturating_add),
        here: made.local,
        cuts: costs.of_batch(made.rows, made.compute.unwrap_or(0.0)),
        cut: costs.current_number(),
        wire: sent.0,
        finishing: Finishing::Reader,
        finishes: made.remote * made.rows * (after + sent.0.receive * bytes),
        objective,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined_of(consumers: &[SpareCapacity]) -> Host {
        let costs = BoundaryCosts::default();
        let (made, sent) =
            (BatchesMade { local: 0.0, remote: 0.0, rows: 1.0, compute: Some(1.0) }, SendCost::new(0.0, 1.0, [0.0; 2]));
        combined(consumers, &made, &costs, &sent, Objective::Time).expect("they say something")
    }

    fn capacity(spare: Spare) -> SpareCapacity {
        let mut capacity = SpareCapacity::default();
        capacity.add(&spare);
        capacity
    }

    #[test]
    fn hosts_that_report_nonsense_overflow_nothing() {
        let most = u32::MAX;
        let (millicores, limit_millicores, own_millicores, pressure) = (most, most, most, most);
        let spare =
            Spare { millicores, limit_millicores, own_millicores, pressure, threads: most, asks: true, machine: 0 };
        let one = combined_of(&vec![capacity(spare); 1 << 19]);
        assert_eq!((one.local_max, one.pressure), (u32::MAX, 1.0));
    }

    #[test]
    fn consumers_on_one_host_have_its_idle_cores_once_and_threads_of_their_own() {
        // Of eight cores the trainers keep three busy, and their threads two and one.
        let of = |own_millicores, machine| {
            let millicores = 2000 + own_millicores;
            capacity(Spare {
                millicores,
                limit_millicores: 8000,
                own_millicores,
                machine,
                asks: true,
                ..Spare::default()
            })
        };
        let figures = |host: Host| (host.cores, host.spare, host.local_max);
        assert_eq!(figures(combined_of(&[of(2000, 7), of(1000, 7)])), (8.0, 5.0, 8));
        assert_eq!(figures(combined_of(&[of(2000, 7), of(1000, 8)])), (16.0, 7.0, 16), "two machines");
        assert_eq!(
            figures(combined_of(&[of(2000, 0), of(1000, 0)])),
            (16.0, 7.0, 16),
            "which do not say whose they are"
        );
    }

    #[test]
    fn no_threads_are_given_where_no_consumer_asks() {
        let spare = Spare { millicores: 2000, limit_millicores: 4000, pressure: 100, machine: 7, ..Spare::default() };
        let host = combined_of(&[capacity(spare)]);
        assert_eq!((host.cores, host.spare, host.pressure, host.local_max), (4.0, 2.0, 0.1, 0));
        let host = combined_of(&[capacity(spare), capacity(Spare { asks: true, machine: 8, ..spare })]);
        assert_eq!((host.cores, host.local_max), (8.0, 4), "beside the other alone");
    }
}
