//! Bounds of reported figures, which several parts of the state share.

/// The most milliseconds, microseconds or rows that a process may report between two heartbeats. A larger number is
/// nonsense, and sums of such numbers would overflow.
pub(super) const REPORTED_MAX: u64 = 1 << 40;
/// The most thousandths of a core that a host may report.
pub(super) const MILLICORES_MAX: u32 = 1 << 24;
/// The least share of a row's time on workers that is left when the costs of single ops are subtracted from it: the
/// figures of ops and those of batches are not of the same rows.
pub(super) const WORKER_SHARE_MIN: f64 = 0.05;
