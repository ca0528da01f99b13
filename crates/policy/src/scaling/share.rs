//! Several jobs, one pool: weighted max-min fairness, in whole workers.
//!
//! The job with the least workers for its weight gets the next one, until it has as many as it wants or none are left
//! ("progressive filling": Bertsekas and Gallager, Data Networks, 6.5.2). So no job gets more than it wants, no worker
//! is left over while a job wants more, and no job could have more without taking it from one with less for its weight.
//! This holds among jobs of one priority; jobs of a higher priority come first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The claim of a job on workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// Claims of a higher priority are served first.
    pub priority: u32,
    /// Workers that it wants.
    pub wanted: u32,
    /// Its weight beside others. A weight of 0 or less counts for almost nothing.
    pub weight: f64,
}

/// Divides `workers`; returns the number for each claim, in their order. Costs a logarithm of the claims for each
/// worker.
pub fn share(workers: u32, claims: &[Claim]) -> Vec<u32> {
    let mut given = vec![0; claims.len()];
    let turn = |given: u32, index: usize| Turn {
        priority: claims[index].priority,
        has: f64::from(given) / claims[index].weight.max(f64::MIN_POSITIVE),
        index,
    };
    let mut turns: BinaryHeap<_> = (0..claims.len()).filter(|&i| claims[i].wanted > 0).map(|i| turn(0, i)).collect();
    for _ in 0..workers {
        let Some(Turn { index, .. }) = turns.pop() else { break };
        given[index] += 1;
        if given[index] < claims[index].wanted {
            turns.push(turn(given[index], index));
        }
    }
    given
}

/// A claim that wants more. The greatest is served next: of the highest priority, the one with the least for its
/// weight, the first of equals.
struct Turn {
    priority: u32,
    has: f64,
    index: usize,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_weight = other.has.total_cmp(&self.has).then(other.index.cmp(&self.index));
        self.priority.cmp(&other.priority).then(by_weight)
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Turn {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims(of: &[(u32, f64)]) -> Vec<Claim> {
        of.iter().map(|&(wanted, weight)| Claim { priority: 0, wanted, weight }).collect()
    }

    #[test]
    fn small_wishes_are_met_and_the_rest_is_dealt_by_weight() {
        assert_eq!(share(10, &claims(&[(2, 1.0), (20, 1.0), (20, 1.0)])), [2, 4, 4]);
        assert_eq!(share(9, &claims(&[(20, 2.0), (20, 1.0)])), [6, 3]);
        assert_eq!(share(7, &claims(&[(1, 1.0), (0, 5.0), (2, 0.0)])), [1, 0, 2]);
        assert_eq!(share(1, &claims(&[(3, 1.0), (3, 1.0)])), [1, 0]);
    }

    #[test]
    fn others_get_what_those_of_a_higher_priority_leave() {
        let mut claims = claims(&[(5, 100.0), (3, 1.0), (2, 1.0), (9, 1.0)]);
        (claims[1].priority, claims[2].priority) = (1, 2);
        assert_eq!([1, 2, 4, 5, 8].map(|workers| share(workers, &claims)[2]), [1, 2, 2, 2, 2]);
        assert_eq!([1, 2, 4, 5, 8].map(|workers| share(workers, &claims)[1]), [0, 0, 2, 3, 3]);
        assert_eq!(share(8, &claims), [2, 3, 2, 1]);
    }

    proptest! {
        #[test]
        fn no_job_could_have_more_but_from_a_job_that_has_less(
            workers in 0u32..200,
            wishes in prop::collection::vec((0u32..60, 0.1f64..8.0), 0..12),
        ) {
            let claims = claims(&wishes);
            let given = share(workers, &claims);
            prop_assert!(given.iter().zip(&claims).all(|(given, claim)| *given <= claim.wanted));
            let wanted: u32 = claims.iter().map(|c| c.wanted).sum();
            prop_assert_eq!(given.iter().sum::<u32>(), workers.min(wanted));
            for (i, claim) in claims.iter().enumerate().filter(|(i, c)| given[*i] < c.wanted) {
                let has = f64::from(given[i]) / claim.weight;
                for (j, other) in claims.iter().enumerate().filter(|(j, _)| given[*j] > 0) {
                    // Before it got its last worker, the other had no more for its weight.
                    prop_assert!(f64::from(given[j] - 1) / other.weight <= has + 1e-9, "{i} {j} {given:?}");
                }
            }
        }
    }
}
