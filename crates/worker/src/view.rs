//! A snapshot of a worker's counters, for the metrics of its process.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use forebay_cache::{Cache, Stats};

use crate::splits::lease_table::LeaseTable;

/// Returns the figures of a worker. Cheap to clone.
#[derive(Clone)]
pub struct View {
    pub(crate) lease_table: Arc<LeaseTable>,
    pub(crate) cache: Option<Arc<Cache>>,
}

/// The state of a worker, and its totals since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Whether the dispatcher has welcomed it in the current session.
    pub is_connected: bool,
    /// Threads that compute.
    pub threads: usize,
    /// Threads that hang in a read, besides those.
    pub threads_held_up: usize,
    /// Compute time of all threads together.
    pub busy: Duration,
    /// Splits that it holds.
    pub splits_held: usize,
    /// Bytes of the chunks of these splits.
    pub bytes_held: usize,
    /// Splits that were computed to their end.
    pub splits_computed: u64,
    /// Rows in these splits.
    pub rows_computed: u64,
    /// Of these rows, the rows that another job with the same samples had computed.
    pub rows_shared: u64,
    /// Bytes of chunks that were sent to consumers.
    pub bytes_sent: u64,
    /// Bytes of chunks that were lent to consumers on this machine.
    pub bytes_lent: u64,
    /// Processor time of sending chunks that were not lent.
    pub send: Duration,
    /// The figures of the cache, if there is one.
    pub cache: Option<Stats>,
}

impl View {
    /// Returns the figures of this moment.
    pub fn figures(&self) -> Figures {
        let stats = &self.lease_table.stats;
        Figures {
            is_connected: stats.is_connected.load(Relaxed),
            threads: self.lease_table.threads(),
            threads_held_up: self.lease_table.threads_held_up(),
            busy: Duration::from_micros(stats.busy_us.load(Relaxed)),
            splits_held: self.lease_table.leases().len(),
            bytes_held: stats.bytes.load(Relaxed),
            splits_computed: stats.splits_done.load(Relaxed),
            rows_computed: stats.rows_done.load(Relaxed),
            rows_shared: stats.rows_shared.load(Relaxed),
            bytes_sent: stats.bytes_sent.load(Relaxed),
            bytes_lent: stats.bytes_lent.load(Relaxed),
            send: Duration::from_nanos(stats.send_ns.load(Relaxed)),
            cache: self.cache.as_ref().map(|cache| cache.stats()),
        }
    }
}
