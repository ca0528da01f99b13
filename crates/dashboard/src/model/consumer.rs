//! One consumer of a job.

use forebay_proto::ConsumerStatus;
use serde::Serialize;

use super::Recent;
use super::optional::some;

/// A consumer in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Consumer {
    /// Its index.
    pub consumer: u32,
    /// Whether a process reads it.
    pub attached: bool,
    /// The epoch of its frontier.
    pub epoch: u64,
    /// The first split that it has not consumed.
    pub split: u64,
    /// The splits of an epoch; `null` if it is endless.
    pub splits: Option<u64>,
    /// Splits that workers hold for it.
    pub leased: u32,
    /// Samples whose skipping was recorded.
    pub skipped: u64,
    /// Batches and rows that it took since the dispatcher started.
    pub batches: u64,
    /// See `batches`.
    pub rows: u64,
    /// Seconds for which its trainer waited for batches since the dispatcher started, and all other seconds.
    pub waited_s: f64,
    /// See `waited_s`.
    pub step_s: f64,
    /// Complete splits after the current one, in its last report.
    pub ahead: u64,
    /// Milliseconds that the current wait of its trainer had lasted in its last report.
    pub waiting_ms: u64,
    /// The last minute.
    pub recent: Recent,
}

impl Consumer {
    /// Makes the JSON of a consumer.
    pub fn of(status: &ConsumerStatus) -> Self {
        let total = status.total.unwrap_or_default();
        Self {
            consumer: status.consumer,
            attached: status.attached,
            epoch: status.epoch,
            split: status.ordinal,
            splits: some(status.splits),
            leased: status.leased,
            skipped: status.skipped,
            batches: total.batches,
            rows: total.rows,
            waited_s: total.waited_ms as f64 / 1e3,
            step_s: total.step_ms as f64 / 1e3,
            ahead: status.ahead,
            waiting_ms: status.waiting_ms,
            recent: Recent::of(std::slice::from_ref(status)),
        }
    }

    /// Returns its progress in words.
    pub fn progress(&self) -> String {
        let splits = self.splits.map_or_else(String::new, |n| format!("/{n}"));
        format!("epoch {} split {}{splits}", self.epoch, self.split)
    }
}
