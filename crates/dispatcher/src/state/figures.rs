//! The state in figures, for metrics. Labels come from fixed sets, whatever jobs, consumers and workers there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Ticks;

use super::fleet::worker_types::Labels;
use super::inspect::{JOB_STATES, worker_state};
use super::{Counts, State};

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
        let mut by_state: BTreeMap<_, u64> = BTreeMap::new();
        for job in self.jobs.values() {
            *by_state.entry(self.job_state(job)).or_default() += 1;
        }
        let (mut workers, mut prices) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, f64>::new());
        let labels = Labels::of(self.workers.values());
        for worker in self.workers.values() {
            let kind = labels.label(worker);
            *workers.entry((kind.clone(), worker_state(worker, worker.leases.len()))).or_default() += 1;
            if !worker.is_local() {
                *prices.entry((kind, worker.worker_type.is_spot())).or_default() += worker.worker_type.price();
            }
        }
        let attached = || self.consumers().filter_map(|(_, consumer)| consumer.attached);
        StateFigures {
            jobs: JOB_STATES.map(|state| (state, by_state.get(state).copied().unwrap_or(0))).to_vec(),
            workers,
            prices,
            consumers_attached: attached().count() as u64,
            longest_wait: attached().filter_map(|attached| Some(now - attached.waits_since?)).max().unwrap_or_default(),
            splits_leased: self.consumers().map(|(_, consumer)| consumer.leases().len() as u64).sum(),
            counts: self.counts,
        }
    }
}
