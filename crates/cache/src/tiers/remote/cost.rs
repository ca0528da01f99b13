//! The cost of reading from the store, and the decisions that follow: whether rows are read or computed, how long a
//! read may take, and which ranges are read together. Arithmetic over measurements, without a clock and without I/O.
//!
//! A read takes a time that does not depend on its size, and a time for each byte; both are averages of recent reads.
//! Rows are read where that takes no longer than computing them, as the policy of caching assumes (`policy::caching`).
//! Where reading does not pay, some rows are still read, so that a store that was slow once is not avoided for ever.
//! The longer a read takes, the fewer: their cost beyond computing is one part in [`PROBE_EVERY`].

use std::time::Duration;

/// A read that takes twice as long as computing is tried once in this many requests.
const PROBE_EVERY: u32 = 64;
/// A read that takes much longer is tried at least once in this many requests.
const PROBE_EVERY_MAX: f64 = 1024.0;
/// The minimum of this many first reads counts, because connections are made in them. Until then the cost is unknown.
const FIRST: u32 = 4;
/// A read that takes longer than this many times the average counts as this multiple: if the store is slow now, later
/// reads show it again.
const OUTLIER: f64 = 4.0;
/// Smaller reads measure the time of a request; larger ones, the time of a byte.
const SMALL_BYTES: u64 = 64 << 10;
/// The weight of the newest read.
pub(crate) const NEWEST: f64 = 0.2;
/// The weight of a read that was tried although it did not pay, because these are few.
const NEWEST_TRIED: f64 = 0.5;
/// The longest wait for rows is this many times the time of computing them, but no less than [`WAIT_MIN`] and no more
/// than [`WAIT_MAX`].
const PATIENCE: u64 = 4;
/// The least bound of a wait.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The greatest bound of a wait. Rows that are later are computed.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes between two rows are read with them if they are no more than this, or no more than the bytes that arrive in
/// the time of a request, up to [`GAP_BYTES_MAX`].
const GAP_BYTES_MIN: u64 = 128 << 10;
/// The most bytes between two rows that are read with them.
const GAP_BYTES_MAX: u64 = 1 << 20;

/// See the module's documentation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Cost {
    pub(super) request_nanos: Option<f64>,
    pub(super) byte_nanos: Option<f64>,
    /// The number of reads in these averages.
    pub(super) reads: u32,
    /// Requests that did not pay since the last trial.
    declined: u32,
    /// Whether the next read is a trial.
    tried: bool,
}

impl Cost {
    /// Records a concurrent read of some parts.
    pub(crate) fn read(&mut self, bytes: u64, nanos: u64) {
        let weight = if std::mem::take(&mut self.tried) { NEWEST_TRIED } else { NEWEST };
        self.reads = self.reads.saturating_add(1);
        let is_first = self.reads <= FIRST;
        let average = |old: Option<f64>, new: f64| {
            let old = old.filter(|old| *old > 0.0).unwrap_or(new);
            Some(if is_first { old.min(new) } else { old + (new.min(old * OUTLIER) - old) * weight })
        };
        let nanos = nanos as f64;
        if bytes <= SMALL_BYTES {
            self.request_nanos = average(self.request_nanos, nanos);
        } else {
            // The time of the bytes alone. A request that was slower than usual leaves a part of its time.
            let moved = (nanos - self.request_nanos.unwrap_or(0.0)).max(nanos / 4.0);
            self.byte_nanos = average(self.byte_nanos, moved / bytes as f64);
            // A request takes no longer than a read of more bytes.
            self.request_nanos = self.request_nanos.map(|request| request.min(nanos));
        }
    }

    /// Returns the expected time of a read of `bytes` bytes, if any was measured.
    fn expected(&self, bytes: u64) -> Option<f64> {
        let known = self.request_nanos.is_some() || self.byte_nanos.is_some();
        known.then(|| self.request_nanos.unwrap_or(0.0) + bytes as f64 * self.byte_nanos.unwrap_or(0.0))
    }

    /// Says whether to read rows that take `compute` nanoseconds to compute. True, where either time is not known.
    pub(crate) fn pays(&mut self, bytes: u64, compute: Option<f64>) -> bool {
        let known = self.expected(bytes).filter(|_| self.reads >= FIRST);
        let Some((read, compute)) = known.zip(compute) else { return true };
        let is_dear = read > compute;
        self.declined = self.declined.saturating_add(1);
        let every = (f64::from(PROBE_EVERY) * (read / compute - 1.0)).min(PROBE_EVERY_MAX);
        if is_dear && f64::from(self.declined) < every {
            return false;
        }
        (self.declined, self.tried) = (0, is_dear);
        true
    }

    /// Says whether moving bytes pays, apart from the time of requests, if computing takes `compute` nanoseconds per
    /// byte.
    pub(crate) fn pays_to_move(&self, compute: Option<f64>) -> bool {
        self.byte_nanos.zip(compute).is_none_or(|(moved, compute)| moved <= compute)
    }

    /// Returns the largest gap in bytes between two rows that are read together, instead of with a request for each.
    pub(crate) fn gap(&self) -> u64 {
        let in_request =
            self.request_nanos.zip(self.byte_nanos).map_or(0.0, |(request, byte)| request / byte.max(1e-3));
        (in_request as u64).clamp(GAP_BYTES_MIN, GAP_BYTES_MAX)
    }
}

/// Returns the longest wait for rows that take `compute` nanoseconds to compute.
pub(crate) fn patience(compute: Option<f64>) -> Duration {
    let times = |nanos: f64| Duration::from_nanos((nanos as u64).saturating_mul(PATIENCE));
    compute.map_or(WAIT_MAX, |nanos| times(nanos).clamp(WAIT_MIN, WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that takes 30 ms for a request, and 10 ns for a byte.
    fn far_away() -> Cost {
        let mut cost = Cost::default();
        for _ in 0..50 {
            cost.read(1000, 30_000_000);
            cost.read(10 << 20, 30_000_000 + (10 << 20) * 10);
        }
        cost
    }

    #[test]
    fn rows_that_cost_less_to_compute_than_to_read_are_computed() {
        let mut cost = far_away();
        let mut pays = |compute: f64| cost.pays(1 << 20, Some(compute * 1e6));
        assert_eq!([10.0, 30.0, 41.0].map(&mut pays), [false, false, true], "40.5 ms");
        assert!(!cost.pays(100 << 20, Some(300e6)), "a second for the bytes");
        assert!(cost.pays(1 << 40, None), "the time to compute them is unknown");
        assert!(Cost::default().pays(1 << 40, Some(1.0)), "the time to read them is unknown");
        assert_eq!([9.0, 11.0].map(|compute| cost.pays_to_move(Some(compute))), [false, true], "10 ns to move one");
        assert!(cost.pays_to_move(None) && Cost::default().pays_to_move(Some(0.0)));
    }

    #[test]
    fn a_store_that_is_slow_is_tried_the_less_the_slower_it_is() {
        let tried = |compute: f64, asked: u32| {
            let mut slow = far_away();
            (0..asked).filter(|_| slow.pays(1000, Some(compute))).count()
        };
        assert_eq!(tried(15.1e6, PROBE_EVERY * 10), 10, "30 ms: twice as long");
        assert_eq!(tried(3.01e6, PROBE_EVERY * 90), 10);
        assert_eq!(tried(29e6, 30), 10, "a thirtieth more");
        let bound = PROBE_EVERY_MAX as u32;
        assert_eq!(tried(3.0, bound * 3), 3);
        assert_eq!(tried(0.0, bound * 3), 3);
    }

    #[test]
    fn one_very_slow_read_in_a_hundred_does_not_stop_reads() {
        let mut cost = Cost::default();
        let (mut reads, mut nanos) = (0u64, 0);
        for question in 0..10_000u64 {
            if cost.pays(1000, Some(20e6)) {
                reads += 1;
                // The slow reads do not predict a slow next read.
                let took = if (question * 7919).is_multiple_of(100) { 500_000_000 } else { 5_000_000 };
                cost.read(1000, took);
                nanos += took;
            } else {
                nanos += 20_000_000;
            }
        }
        assert!(reads > 9_000, "{reads} reads");
        assert!(nanos / 10_000 < 11_000_000, "{nanos}: 9.95 ms are what reads take");
        // A store that is slow from now on is avoided after a few reads.
        let left = (0..100).position(|_| {
            cost.read(1000, 500_000_000);
            !cost.pays(1000, Some(20e6))
        });
        assert!(left.is_some_and(|reads| reads < 8), "{left:?}");
    }

    #[test]
    fn a_store_that_became_fast_is_found_out() {
        let mut cost = far_away();
        let mut reads = 0;
        // A read takes 30 ms and computing 1 ms; from now on a read takes 0.1 ms.
        let read = |cost: &mut Cost| {
            let pays = cost.pays(1000, Some(1e6));
            if pays {
                cost.read(1000, 100_000);
            }
            pays
        };
        let asked = (0..100_000).position(|_| {
            reads += u32::from(read(&mut cost));
            cost.expected(1000) < Some(1e6)
        });
        assert!(asked.is_some_and(|asked| asked < 4000) && reads < 10, "{asked:?} questions, {reads} reads");
        assert!((0..100).all(|_| read(&mut cost)));
    }

    #[test]
    fn what_is_between_rows_is_read_with_them_where_a_request_takes_longer() {
        assert_eq!(Cost::default().gap(), GAP_BYTES_MIN);
        assert_eq!(far_away().gap(), GAP_BYTES_MAX, "30 ms are 3 MB");
        let mut near = Cost::default();
        near.read(1, 90_000_000);
        near.read(1 << 20, 1_000_000);
        assert!(near.gap() > GAP_BYTES_MIN && near.pays(1, Some(1_100_000.0)), "a request takes no longer than that");
        let mut near = Cost::default();
        near.read(1, 1_000_000);
        near.read(1 << 20, 1_000_000 + (1 << 20) * 2);
        assert_eq!(near.gap(), 500_000);
    }

    #[test]
    fn waits_are_bounded_for_rows_of_any_cost() {
        let waits = [None, Some(0.0), Some(500e6), Some(f64::MAX)].map(patience);
        assert_eq!(waits, [WAIT_MAX, WAIT_MIN, Duration::from_secs(2), WAIT_MAX]);
    }
}
