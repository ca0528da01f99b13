//! Counters of one worker: the contents of its splits now, and the totals computed and sent since its start.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::compute::op_metrics::OpMetrics;
use crate::compute::spent::{SentBytes, SpentTime};

/// The totals over all splits of a worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerStats {
    /// Bytes of the chunks that are held.
    pub(crate) bytes: AtomicUsize,
    /// Of these bytes, the bytes that were sent and belong to splits of unknown length.
    pub(crate) sent: AtomicUsize,
    /// Splits that occupy a slot: they wait or are being computed, and do not wait for their consumer.
    pub(crate) open: AtomicUsize,
    /// Splits that were computed to their end.
    pub(crate) splits_done: AtomicU64,
    /// Rows in these splits.
    pub(crate) rows_done: AtomicU64,
    /// Of these rows, the rows that another job had computed.
    pub(crate) rows_shared: AtomicU64,
    /// Compute time and rows of each job, until the next heartbeat reports them.
    pub(crate) spent: SpentTime,
    /// Microseconds of compute time, of all jobs since the start.
    pub(crate) busy_us: AtomicU64,
    /// Bytes of chunks that were sent to consumers, and bytes that were lent to them.
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_lent: AtomicU64,
    /// Bytes that were sent and not lent, and the processor time of sending them, of each job until the next heartbeat.
    pub(crate) send_costs: SentBytes,
    /// Nanoseconds of that processor time, of all jobs since the start.
    pub(crate) send_ns: AtomicU64,
    /// Whether the dispatcher has welcomed this worker in the current session.
    pub(crate) is_connected: AtomicBool,
    /// The cost of each job's ops.
    pub(crate) ops: OpMetrics,
    /// Notified when bytes or slots become free.
    pub(crate) freed: Notify,
    /// Streams of consumers that record a trace.
    traced: AtomicUsize,
}

/// A stream of a consumer that records a trace.
pub(crate) struct TracedStream<'a>(&'a WorkerStats);

impl WorkerStats {
    /// Has spans logged until the returned value is dropped.
    pub(crate) fn trace(&self) -> TracedStream<'_> {
        self.traced.fetch_add(1, Relaxed);
        TracedStream(self)
    }

    /// Returns whether a consumer records a trace.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced.load(Relaxed) > 0
    }
}

impl Drop for TracedStream<'_> {
    fn drop(&mut self) {
        self.0.traced.fetch_sub(1, Relaxed);
    }
}
