//! Divides the units of an epoch among consumers, and divides the rest again when the number of consumers changes.
//!
//! Unit `u` belongs to consumer `u mod n`. Data-parallel consumers step together: when each has taken `k` units, units
//! `0..k * n` are done. That number is the **frontier**, and another number of consumers can resume from it alone: each
//! begins at its first unit from there on. The frontier modulo the number of consumers is the **phase**; it holds until
//! the epoch ends.
//!
//! **Coordinated** consumers share batches instead of units. The length of a row, and whether a filter keeps it, are
//! known only after it was computed, so each consumer reads all units and takes its part of every `n` batches (of one
//! bucket, if there are buckets). All coordinated consumers have the same position, and all end together.
//!
//! Invariants: in step `s` from frontier `g`, consumers take units `g + s * n .. g + (s + 1) * n`, one each. Even
//! shares end all consumers after the same step, with fewer than `n` units left.

use forebay_core::{ConsumerIndex, Result};

use crate::graph::Graph;
use crate::physical::stages::Stages;

/// How the units of an epoch are divided among consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharding {
    /// The number of consumers; at least 1.
    pub consumers: u32,
    /// Whether all consumers get the same number of units in every epoch; the remaining units are then dropped.
    pub even: bool,
    /// Whether consumers share batches (of the same bucket, if there are buckets) instead of units: each reads all
    /// units, and takes its part of their batches.
    pub coordinated: bool,
}

impl From<u32> for Sharding {
    /// Divides all units, so some consumers may get one unit more than others.
    fn from(consumers: u32) -> Self {
        Self { consumers, even: false, coordinated: false }
    }
}

impl Sharding {
    /// Divides a graph among consumers. Shares are even if the user requests it; by default, if there are several
    /// consumers and the plan knows the units of each.
    ///
    /// Errors of [`Stages::new`].
    pub fn choose(graph: &Graph, consumers: u32, even: Option<bool>, coordinated: bool) -> Result<(Stages, Self)> {
        let sharding = Self { consumers, even: false, coordinated };
        let stages = Stages::in_parts(graph, sharding.parts())?;
        // Coordinated shares are always even.
        let even = !coordinated && even.unwrap_or(consumers > 1 && stages.counts_known);
        Ok((stages, Self { even, ..sharding }))
    }

    fn count(self) -> u64 {
        u64::from(self.consumers.max(1))
    }

    /// Returns the number of parts into which the units of an epoch are divided.
    pub fn parts(self) -> u64 {
        if self.coordinated { 1 } else { self.count() }
    }

    /// Returns the part of a consumer.
    pub fn part(self, consumer: ConsumerIndex) -> u64 {
        if self.coordinated { 0 } else { u64::from(consumer.0) }
    }

    /// Returns how many of an epoch's units belong to a consumer.
    pub fn consumer_units(self, consumer: ConsumerIndex, units: u64) -> u64 {
        (units + self.parts() - 1 - self.part(consumer)) / self.parts()
    }

    /// Returns how many of its units a consumer has completed at the end of the last round that all consumers have.
    pub fn even_share(self, consumer: ConsumerIndex, units: u64, phase: u64) -> u64 {
        let before = u64::from(u64::from(consumer.0) < phase);
        units.checked_sub(phase).map_or(0, |units| units / self.count() + before)
    }

    /// Returns the frontier after a consumer has completed `passed` of its units, in an epoch with this phase.
    pub fn frontier(self, consumer: ConsumerIndex, passed: u64, phase: u64) -> u64 {
        let before = u64::from(u64::from(consumer.0) < phase);
        passed.saturating_sub(before).saturating_mul(self.count()).saturating_add(phase)
    }

    /// Returns how many of its units a consumer counts as completed when it resumes from a frontier, and the phase.
    pub fn resume(self, consumer: ConsumerIndex, frontier: u64) -> (u64, u64) {
        let (rounds, phase) = (frontier / self.count(), frontier % self.count());
        (rounds + u64::from(u64::from(consumer.0) < phase), phase)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the units that a consumer takes from a frontier on.
    fn rest(sharding: Sharding, consumer: u32, frontier: u64, units: u64) -> Vec<u64> {
        let index = ConsumerIndex(consumer);
        let (passed, phase) = sharding.resume(index, frontier);
        let end = if sharding.even {
            sharding.even_share(index, units, phase)
        } else {
            sharding.consumer_units(index, units)
        };
        (passed..end).map(|unit| unit * u64::from(sharding.consumers) + u64::from(consumer)).collect()
    }

    proptest! {
        /// Resharding loses no unit and repeats none; even shares are equal, and drop less than a round.
        #[test]
        fn from_a_frontier_on_any_number_of_consumers_takes_the_rest(
            units in 0u64..200, frontier in 0u64..220, consumers in 1u32..9, even: bool,
        ) {
            let sharding = Sharding { even, ..Sharding::from(consumers) };
            let each: Vec<_> = (0..consumers).map(|i| rest(sharding, i, frontier, units)).collect();
            let mut all = each.concat();
            all.sort_unstable();
            let left = units.saturating_sub(frontier);
            let taken = if even { left - left % u64::from(consumers) } else { left };
            prop_assert!(all.into_iter().eq(frontier..frontier + taken));
            if even {
                prop_assert!(each.iter().all(|e| e.len() == each[0].len()));
            }
        }

        /// After each step, every consumer has the same frontier, also in an epoch that was resharded before.
        #[test]
        fn consumers_that_step_together_agree_on_the_frontier(
            frontier in 0u64..100, step in 0u64..30, consumers in 1u32..9,
        ) {
            let sharding = Sharding::from(consumers);
            for index in (0..consumers).map(ConsumerIndex) {
                let (passed, phase) = sharding.resume(index, frontier);
                let now = sharding.frontier(index, passed + step, phase);
                prop_assert_eq!(now, frontier + step * u64::from(consumers));
                prop_assert_eq!(sharding.resume(index, now), (passed + step, phase));
            }
        }
    }
}
