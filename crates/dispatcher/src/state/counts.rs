//! Counters of events for metrics, since this process leads. They only rise; no decision depends on them, and they are
//! not persisted.

/// How often each event happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Leases of splits that were granted, including backup leases.
    pub splits_granted: u64,
    /// Granted splits that their consumer has consumed.
    pub splits_accepted: u64,
    /// Splits that were released to be granted again because their worker was lost, or their consumer could not fetch
    /// them.
    pub splits_recomputed: u64,
    /// Splits that a second worker got because the first one was late or had other splits to compute.
    pub splits_raced: u64,
    /// Splits whose place at a worker went to a consumer that had none.
    pub splits_gave_way: u64,
    /// Rows that consumers merged, as they report.
    pub rows_delivered: u64,
    /// Bytes of these rows, as they arrived.
    pub bytes_delivered: u64,
    /// Samples that consumers left out, as far as they are recorded.
    pub samples_skipped: u64,
    /// Jobs that were removed because they were over or abandoned, or at a client's request.
    pub jobs_forgotten: u64,
    /// Workers that fell silent, or whose connection broke while they were not leaving.
    pub workers_lost: u64,
    /// Leases that these workers held.
    pub leases_lapsed: u64,
    /// Heartbeats of workers whose session was over.
    pub worker_heartbeats_refused: u64,
    /// Heartbeats of consumers whose session was over.
    pub consumer_heartbeats_refused: u64,
}
