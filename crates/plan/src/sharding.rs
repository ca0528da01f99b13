//! How the units of an epoch are dealt to consumers, and dealt anew when their number changes.
//!
//! Unit `u` belongs to consumer `u mod n`. Data-parallel consumers step together: when each has taken `k` units, units
//! `0..k * n` are gone. That number is the **frontier**, and all that another number of consumers needs to go on: each
//! begins at its first unit from there on. What the frontier is beyond a multiple of their number is the **phase**; it
//! holds until the epoch ends.
//!
//! Consumers that are **coordinated** are dealt batches instead: lengths, and which rows a filter keeps, are known only
//! where rows were computed, so each reads all units and takes its part of every `n` batches (of one bucket, where there
//! are buckets). Wherever one of them is, all are, and all end together.
//!
//! Invariants: in step `s` from frontier `g`, consumers take units `g + s * n .. g + (s + 1) * n`, one each; even shares
//! end all of them after the same step, with fewer than `n` units left.

use forebay_core::{ConsumerIndex, Result};

use crate::graph::Graph;
use crate::stages::Stages;

/// How the units of an epoch are dealt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharding {
    /// Among how many; at least 1.
    pub consumers: u32,
    /// Whether each consumer gets as many units as the others, in every epoch: what is left over is left out.
    pub even: bool,
    /// Whether consumers are dealt batches (of the same bucket, where there are buckets), not units: each has all units,
    /// and takes its part of what they come to.
    pub coordinated: bool,
}

impl From<u32> for Sharding {
    /// Everything is dealt, so some consumers may get one unit more than others.
    fn from(consumers: u32) -> Self {
        Self { consumers, even: false, coordinated: false }
    }
}

impl Sharding {
    /// Divides a graph for so many consumers, and deals evenly as the user said; if nothing was said, where there are several
    /// consumers and the plan knows what each gets.
    ///
    /// # Errors
    /// As [`Stages::new`].
    pub fn choose(graph: &Graph, consumers: u32, even: Option<bool>, coordinated: bool) -> Result<(Stages, Self)> {
        let sharding = Self { consumers, even: false, coordinated };
        let stages = Stages::in_parts(graph, sharding.parts())?;
        // What is coordinated is even by itself.
        let even = !coordinated && even.unwrap_or(consumers > 1 && stages.dealt);
        Ok((stages, Self { even, ..sharding }))
    }

    fn count(self) -> u64 {
        u64::from(self.consumers.max(1))
    }

    /// Returns into how many parts the units of an epoch are dealt.
    pub fn parts(self) -> u64 {
        if self.coordinated { 1 } else { self.count() }
    }

    /// Returns which of these parts a consumer has.
    pub fn part(self, consumer: ConsumerIndex) -> u64 {
        if self.coordinated { 0 } else { u64::from(consumer.0) }
    }

    /// Returns how many of an epoch's units belong to a consumer.
    pub fn dealt(self, consumer: ConsumerIndex, units: u64) -> u64 {
        (units + self.parts() - 1 - self.part(consumer)) / self.parts()
    }

    /// Returns how many units of its own a consumer has passed when the last round that all consumers have ends.
    pub fn even_share(self, consumer: ConsumerIndex, units: u64, phase: u64) -> u64 {
        let before = u64::from(u64::from(consumer.0) < phase);
        units.checked_sub(phase).map_or(0, |units| units / self.count() + before)
    }

    /// Returns the frontier once a consumer has passed `passed` units of its own, in an epoch of this phase.
    pub fn frontier(self, consumer: ConsumerIndex, passed: u64, phase: u64) -> u64 {
        let before = u64::from(u64::from(consumer.0) < phase);
        passed.saturating_sub(before).saturating_mul(self.count()).saturating_add(phase)
    }

    /// Returns how many units of its own a consumer has passed that goes on from a frontier, and the phase.
    pub fn resume(self, consumer: ConsumerIndex, frontier: u64) -> (u64, u64) {
        let (rounds, phase) = (frontier / self.count(), frontier % self.count());
        (rounds + u64::from(u64::from(consumer.0) < phase), phase)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The units that a consumer takes from a frontier on.
    fn rest(sharding: Sharding, consumer: u32, frontier: u64, units: u64) -> Vec<u64> {
        let index = ConsumerIndex(consumer);
        let (passed, phase) = sharding.resume(index, frontier);
        let end = if sharding.even { sharding.even_share(index, units, phase) } else { sharding.dealt(index, units) };
        (passed..end).map(|unit| unit * u64::from(sharding.consumers) + u64::from(consumer)).collect()
    }

    proptest! {
        /// Dealt anew, nothing is lost and nothing comes twice; even shares are equal, and leave less than a round out.
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

        /// After each step, every consumer names the same frontier, also where the epoch was dealt anew before.
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
