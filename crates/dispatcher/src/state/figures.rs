//! The state in figures, for metrics. Labels come from fixed sets, for any jobs, consumers and workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Ticks;

use super::counts::Counts;
use super::leases::status::LeaseFigures;
use super::router::State;

/// Gauges of the state, and its counters.
#[derive(Debug, Clone, PartialEq)]
pub struct StateFigures {
    /// Jobs by state; states without jobs are listed, too.
    pub jobs: Vec<(&'static str, u64)>,
    /// Workers by type and state.
    pub workers: BTreeMap<(Arc<str>, &'static str), u64>,
    /// The price per hour of the fleet's workers, by type and whether they are spot workers.
    pub prices: BTreeMap<(Arc<str>, bool), f64>,
    /// Consumers with a session.
    pub consumers_attached: u64,
    /// How long the consumer that waits longest for rows has waited.
    pub longest_wait: Duration,
    /// Splits that workers hold.
    pub splits_leased: u64,
    /// Counters since this process leads.
    pub counts: Counts,
}

impl State {
    /// Returns the figures of this moment.
    pub(crate) fn figures(&self, now: Ticks) -> StateFigures {
        let (mut workers, mut prices) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, f64>::new());
        let labels = self.fleet.labels(self.leases.workers());
        for (worker, (_, state)) in self.leases.workers().zip(self.leases.worker_states()) {
            let worker_type = self.fleet.worker_type(worker.id);
            let kind = labels.label(worker_type, worker.is_local());
            *workers.entry((kind.clone(), state)).or_default() += 1;
            if !worker.is_local() {
                *prices.entry((kind, worker_type.is_spot())).or_default() += worker_type.price();
            }
        }
        let LeaseFigures { jobs, consumers_attached, longest_wait, splits_leased } = self.leases.figures(now);
        let counts = self.leases.counts();
        StateFigures { jobs, workers, prices, consumers_attached, longest_wait, splits_leased, counts }
    }
}
