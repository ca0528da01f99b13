//! Decides which consumer may take the place of another consumer's waiting split: max-min fairness by weight.
//! Arithmetic only.
//!
//! Invariant: a consumer takes a place only if afterwards it has, for its weight, no more splits than the other one. So
//! two consumers never take the same place from each other in turn.

use std::cmp::Ordering;

/// The unfinished splits of a consumer, and its claim to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state::leases) struct Claim {
    /// Jobs of a higher priority come first.
    pub(in crate::state::leases) priority: u32,
    /// The share among consumers of one priority; at least 1.
    pub(in crate::state::leases) weight: u64,
    /// Splits that workers hold and have not finished.
    pub(in crate::state::leases) splits: u64,
}

impl Claim {
    /// Returns a sort key: the consumer with the greatest key gives way first. That is the consumer of the lowest
    /// priority, and among equals the one with the most splits for its weight.
    pub(in crate::state::leases) fn rank(self) -> (std::cmp::Reverse<u32>, u128) {
        (std::cmp::Reverse(self.priority), (u128::from(self.splits) << 64) / u128::from(self.weight))
    }
}

/// Returns whether `ours` may take the place of a waiting split of `theirs`.
pub(in crate::state::leases) fn may_take_from(ours: Claim, theirs: Claim) -> bool {
    match ours.priority.cmp(&theirs.priority) {
        Ordering::Less => false,
        Ordering::Greater => theirs.splits > 0,
        Ordering::Equal => {
            let (after, left) = (u128::from(ours.splits) + 1, u128::from(theirs.splits).saturating_sub(1));
            after * u128::from(theirs.weight) <= left * u128::from(ours.weight)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes places until none may be taken; returns the splits of both then.
    fn settle(mut ours: Claim, mut theirs: Claim) -> [u64; 2] {
        while may_take_from(ours, theirs) {
            ours.splits += 1;
            theirs.splits -= 1;
            assert!(ours.priority > theirs.priority || !may_take_from(theirs, ours), "it would be taken back");
        }
        [ours.splits, theirs.splits]
    }

    #[test]
    fn places_are_divided_by_weight_and_a_lower_priority_takes_none() {
        let claim = |priority, weight, splits| Claim { priority, weight, splits };
        assert_eq!(settle(claim(0, 1, 0), claim(0, 1, 6)), [3, 3]);
        assert_eq!(settle(claim(0, 1, 0), claim(0, 1, 1)), [0, 1], "the only split is not taken");
        assert_eq!(settle(claim(0, 3, 0), claim(0, 1, 8)), [6, 2]);
        assert_eq!(settle(claim(0, 1, 0), claim(0, 3, 8)), [2, 6]);
        assert_eq!(settle(claim(1, 1, 0), claim(0, 9, 8)), [8, 0]);
        assert_eq!(settle(claim(0, 9, 0), claim(1, 1, 8)), [0, 8]);
    }

    proptest! {
        #[test]
        fn every_consumer_has_its_share_within_a_split(
            weights in (1u64..100, 1u64..100), splits in 0u64..200,
        ) {
            let claim = |weight, splits| Claim { priority: 0, weight, splits };
            let [ours, theirs] = settle(claim(weights.0, 0), claim(weights.1, splits));
            prop_assert_eq!(ours + theirs, splits);
            let share = splits as f64 * weights.0 as f64 / (weights.0 + weights.1) as f64;
            prop_assert!(ours as f64 <= share + 1e-9 && ours as f64 > share - 1.0 - 1e-9, "{} of {}", ours, share);
        }
    }
}
