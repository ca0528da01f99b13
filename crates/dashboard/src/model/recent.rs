//! The last minute of a job's consumers.

use forebay_proto::ConsumerStatus;
use serde::Serialize;

/// The assumed duration of a step that was too short to measure, in milliseconds.
const STEP_MIN_MS: f64 = 0.5;

/// Rates over the last minute, of one consumer or of all consumers of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Recent {
    /// The seconds that the figures cover, 60 at most; 0 if nothing was reported.
    pub seconds: f64,
    /// The share of its time for which the trainer waited, 0 to 1; `null` if nothing was reported.
    pub waited: Option<f64>,
    /// Batches that the trainer took per second.
    pub batches_per_s: f64,
    /// Rows per second.
    pub rows_per_s: f64,
    /// Transferred bytes of these rows per second.
    pub bytes_per_s: f64,
    /// Batches that the trainer would take per second if it never waited; `null` if it took none.
    pub demand_per_s: Option<f64>,
}

impl Recent {
    /// Sums up the reports of the attached consumers.
    pub fn of(consumers: &[ConsumerStatus]) -> Self {
        let mut sum = Self::default();
        let (mut waited, mut spent, mut demand) = (0.0, 0.0, 0.0);
        for consumer in consumers.iter().filter(|c| c.attached && c.recent_ms > 0) {
            let (recent, seconds) = (consumer.recent.unwrap_or_default(), consumer.recent_ms as f64 / 1e3);
            sum.seconds = sum.seconds.max(seconds);
            sum.batches_per_s += recent.batches as f64 / seconds;
            sum.rows_per_s += recent.rows as f64 / seconds;
            sum.bytes_per_s += recent.bytes as f64 / seconds;
            waited += recent.waited_ms as f64;
            spent += (recent.waited_ms + recent.step_ms) as f64;
            demand += recent.batches as f64 * 1e3 / (recent.step_ms as f64).max(STEP_MIN_MS);
        }
        sum.waited = (spent > 0.0).then(|| waited / spent);
        sum.demand_per_s = Some(demand).filter(|demand| *demand > 0.0);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::ConsumerSums;

    #[test]
    fn consumers_are_added_up_and_absent_ones_are_left_out() {
        let consumer = |waited_ms, step_ms, batches, attached| ConsumerStatus {
            attached,
            recent: Some(ConsumerSums { waited_ms, step_ms, batches, rows: 8 * batches, bytes: 80 * batches }),
            recent_ms: waited_ms + step_ms,
            ..ConsumerStatus::default()
        };
        let of =
            Recent::of(&[consumer(5000, 5000, 100, true), consumer(0, 10_000, 50, true), consumer(1, 1, 9, false)]);
        assert_eq!((of.seconds, of.waited, of.batches_per_s), (10.0, Some(0.25), 15.0));
        assert_eq!((of.rows_per_s, of.bytes_per_s, of.demand_per_s), (120.0, 1200.0, Some(25.0)));
        assert_eq!(Recent::of(&[consumer(0, 0, 0, true)]), Recent::default());
    }
}
