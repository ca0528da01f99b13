//! Decides whether peers are queried for rows that they do not list, by the cost and the yield of such requests.
//! Arithmetic over measurements, without a clock and without I/O.
//!
//! Mostly no peer has such rows: the rows of one job are computed once, by one worker. So peers are queried where a
//! request takes at most a part of the time of computing the rows. This part is the share of rows that recent requests
//! yielded, or at least [`FUTILE_PART`], which bounds the loss. Otherwise peers are queried for one claim in
//! [`VAIN_EVERY`], which detects a second job on the same data.
//!
//! Invariant: requests and reads are measured separately. A request yields no row or many, and a peer that hangs is not
//! a slow disk.

use crate::tiers::remote::cost::NEWEST;

/// One claim in this many is requested where requests do not pay.
const VAIN_EVERY: u32 = 32;
/// The most that futile requests may take, as a part of computing.
const FUTILE_PART: f64 = 1.0 / 64.0;

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct AskPolicy {
    /// The time of a request, without its wait for rows.
    nanos: Option<f64>,
    /// The share of the requested rows that a request yields.
    share: f64,
    /// Claims without a request since the last one.
    declined: u32,
}

impl Default for AskPolicy {
    /// Until it is measured, peers are assumed to have every row.
    fn default() -> Self {
        Self { nanos: None, share: 1.0, declined: 0 }
    }
}

impl AskPolicy {
    /// Records the time of a request, and the share of rows that it yielded.
    pub(crate) fn note(&mut self, nanos: u64, share: f64) {
        let nanos = nanos as f64;
        self.nanos = Some(self.nanos.map_or(nanos, |old| old + (nanos - old) * NEWEST));
        self.share += (share - self.share) * NEWEST;
    }

    /// Says whether to request rows that take `compute` nanoseconds to compute. True, where either time is not known.
    pub(crate) fn pays(&mut self, compute: Option<f64>) -> bool {
        let Some((nanos, compute)) = self.nanos.zip(compute) else { return true };
        if nanos <= compute * self.share.max(FUTILE_PART) {
            self.declined = 0;
            return true;
        }
        self.declined = (self.declined + 1) % VAIN_EVERY;
        self.declined == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn pays(policy: &mut AskPolicy, millis: f64) -> usize {
        (0..VAIN_EVERY).filter(|_| policy.pays(Some(millis * 1e6))).count()
    }

    #[test]
    fn who_asks_in_vain_asks_seldom_and_who_is_given_rows_asks_on() {
        let mut policy = AskPolicy::default();
        assert!(policy.pays(None) && policy.pays(Some(0.0)), "nothing is known");
        (0..100).for_each(|_| policy.note(MILLI, 0.0));
        assert_eq!([2.0, 60.0, 70.0].map(|compute| pays(&mut policy, compute)), [1, 1, 32], "in vain");
        policy.note(MILLI, 1.0);
        assert_eq!([4.0, 6.0].map(|compute| pays(&mut policy, compute)), [1, 32], "one that was not is enough");
        (0..100).for_each(|_| policy.note(MILLI, 1.0));
        assert_eq!([0.9, 1.1].map(|compute| pays(&mut policy, compute)), [1, 32]);
    }

    #[test]
    fn peers_that_became_fast_are_found_out() {
        let mut policy = AskPolicy::default();
        (0..100).for_each(|_| policy.note(1000 * MILLI, 0.5));
        assert_eq!(pays(&mut policy, 10.0), 1);
        (0..100).for_each(|_| policy.note(MILLI, 0.5));
        assert_eq!(pays(&mut policy, 10.0), 32);
    }
}
