//! A job with its consumers, as far as leases depend on it.

use std::sync::Arc;

use forebay_plan::NeededBits;

use crate::records::JobRecord;
use crate::state::leases::consumers::consumer::Consumer;
use crate::state::leases::grants::stragglers::SplitDurations;
use crate::state::leases::jobs::epoch_ends::EpochEnds;
use crate::state::leases::jobs::skipped_tally::SkippedTally;
use crate::state::leases::views::JobView;

/// `ops` of a lease of a worker that runs all row ops.
const ALL_OPS: u32 = u32::MAX;

#[derive(Debug)]
pub(in crate::state::leases) struct Job {
    pub(in crate::state::leases) record: Arc<JobRecord>,
    pub(in crate::state::leases) consumers: Vec<Consumer>,
    /// Whether splits are of unknown length: computed while their consumer takes them.
    pub(in crate::state::leases) streamed: bool,
    pub(in crate::state::leases) split_durations: SplitDurations,
    /// Splits that a second worker got since this process began, because the first one was late or had other splits to
    /// compute.
    pub(in crate::state::leases) second_leases: u64,
    /// How many row ops workers run (the placement boundary); `None` if there is no choice.
    pub(in crate::state::leases) boundary: Option<u32>,
    pub(in crate::state::leases) skipped: SkippedTally,
    /// The progress of its consumers, if they end epochs together.
    pub(in crate::state::leases) epoch_ends: EpochEnds,
    /// The versions of bits that its workers and consumers must compute.
    pub(in crate::state::leases) bits: NeededBits,
}

impl Job {
    pub(in crate::state::leases) fn new(record: Arc<JobRecord>, consumers: Vec<Consumer>) -> Self {
        let (streamed, epoch_ends) = (record.is_streamed(), EpochEnds::of(&record));
        let (split_durations, skipped) = Default::default();
        let (second_leases, boundary, bits) = (0, None, record.needed_bits());
        Self { record, consumers, streamed, split_durations, second_leases, boundary, skipped, epoch_ends, bits }
    }

    /// Returns the view of it for the other machines.
    pub(in crate::state::leases) fn view(&self) -> JobView<'_> {
        let quotas = self.consumers.iter().filter_map(|c| c.attached?.workers_max);
        JobView { record: &self.record, consumers: self.consumers.len() as u32, workers_max: quotas.min() }
    }

    pub(in crate::state::leases) fn is_finished(&self) -> bool {
        self.consumers.iter().all(Consumer::is_finished)
    }

    pub(in crate::state::leases) fn is_read(&self) -> bool {
        self.consumers.iter().any(|c| c.attached.is_some())
    }

    /// Returns the number of row ops for a worker. A local worker runs all of them.
    pub(in crate::state::leases) fn ops_on_worker(&self, is_local: bool) -> Option<u32> {
        self.boundary.map(|ops| if is_local { ALL_OPS } else { ops })
    }
}
