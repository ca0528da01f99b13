//! What has happened since this process leads: sums that only rise, for metrics. Nothing is decided on them, and nothing of them is
//! written down.

/// How often what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Leases of splits that were granted, second ones of a race too.
    pub splits_granted: u64,
    /// Granted splits that their reader has consumed.
    pub splits_accepted: u64,
    /// Splits that went back to be granted again because their worker was lost, or their reader could not fetch them.
    pub splits_recomputed: u64,
    /// Splits that a second worker was given because the first was late, or had others to do.
    pub splits_raced: u64,
    /// Rows that readers merged, as they say.
    pub rows_delivered: u64,
    /// Bytes of these rows, as they came.
    pub bytes_delivered: u64,
    /// Samples that readers left out, as far as they are recorded.
    pub samples_skipped: u64,
    /// Jobs that left: they were over or abandoned, or somebody said so.
    pub jobs_forgotten: u64,
    /// Workers that fell silent, or whose connection broke while they were not leaving.
    pub workers_lost: u64,
    /// Leases that these held.
    pub leases_lapsed: u64,
    /// Heartbeats of workers whose session was over by then.
    pub worker_heartbeats_refused: u64,
    /// The same, of readers.
    pub consumer_heartbeats_refused: u64,
}
