//! Decides where the consumers of a job end an epoch together, if the steps of each consumer are known only after its
//! rows were computed.
//!
//! A step is a batch; without batches it is a sample. Each consumer reports how many steps of an epoch it has so far,
//! and whether these are all ([`Count`]). The counts determine how many steps all of them may deliver
//! ([`Ending::floor`]).
//!
//! Invariants: counts only rise, and the last count of a consumer is a function of the pipeline, the seed, the epoch
//! and the number of consumers; therefore so is the end of an epoch. A floor only rises, in any order in which
//! counts become known. A short last batch counts as a batch, as for even shares.

use serde::{Deserialize, Serialize};

use crate::epoch::sharding::Sharding;
use crate::graph::Graph;
use crate::physical::stages::Stages;

/// What happens at the first step of an epoch that some consumers have and others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// No rule is needed: each consumer ends by itself, or all are known to end together.
    #[default]
    Apart,
    /// All consumers end.
    Drop,
    /// Consumers without it repeat their last batch until all have ended.
    Pad,
    /// All consumers fail.
    Error,
}

/// How many steps of an epoch a consumer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// So far.
    pub has: u64,
    /// Whether there are no more.
    pub ended: bool,
}

/// How much of an epoch all consumers of a job may deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Floor {
    /// The number of steps.
    pub steps: u64,
    /// Whether the epoch ends there for all.
    pub over: bool,
    /// If it is over: how many consumers are known to have one more step.
    pub more: u32,
}

impl Ending {
    /// Chooses the ending of a job: if counts may differ, the requested one; without a request `Drop`, or `Apart` with
    /// `even=False`.
    pub fn choose(graph: &Graph, stages: &Stages, sharding: Sharding, even: Option<bool>, asked: Option<Self>) -> Self {
        if sharding.consumers < 2 || sharding.coordinated || graph.is_endless() {
            return Self::Apart;
        }
        let is_known = stages.counts_known && !graph.on_error().is_tolerant();
        match asked {
            None if even == Some(false) => Self::Apart,
            None | Some(Self::Drop) if is_known => Self::Apart,
            None => Self::Drop,
            Some(asked) => asked,
        }
    }

    /// Returns its name, as users write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Apart => "none",
            Self::Drop => "drop",
            Self::Pad => "pad",
            Self::Error => "error",
        }
    }

    /// Returns how much of an epoch all may deliver; a count is `None` for a consumer that has reported none.
    pub fn floor(self, counts: impl Iterator<Item = Option<Count>> + Clone) -> Floor {
        let is_told = counts.clone().all(|count| count.is_some());
        let told = counts.map(Option::unwrap_or_default);
        let of = |ended: bool| told.clone().filter(move |count| count.ended == ended).map(|count| count.has);
        // The least count of the consumers that have ended, and of the consumers that have not.
        let (first_end, open) = (of(true).min(), of(false).min());
        let is_behind = |steps: u64| open.is_none_or(|open| open > steps);
        let more = |steps: u64| told.clone().filter(|count| count.has > steps).count() as u32;
        let least = first_end.into_iter().chain(open).min().unwrap_or(0);
        match self {
            Self::Apart => Floor { steps: u64::MAX, ..Floor::default() },
            Self::Drop => Floor { steps: least, over: is_told && first_end == Some(least), more: 0 },
            Self::Error => {
                let over = is_told && first_end == Some(least) && is_behind(least);
                Floor { steps: least, over, more: if over { more(least) } else { 0 } }
            }
            Self::Pad if !is_told => Floor::default(),
            // A consumer without any batch has none to repeat.
            Self::Pad if first_end == Some(0) => {
                let over = is_behind(0);
                Floor { steps: 0, over, more: if over { more(0) } else { 0 } }
            }
            Self::Pad => match open {
                Some(open) => Floor { steps: open, ..Floor::default() },
                None => Floor { steps: of(true).max().unwrap_or(0), over: true, more: 0 },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ended(has: u64) -> Option<Count> {
        Some(Count { has, ended: true })
    }

    fn open(has: u64) -> Option<Count> {
        Some(Count { has, ended: false })
    }

    #[test]
    fn an_end_is_known_once_it_follows_from_the_reported_counts() {
        let floor = |ending: Ending, counts: &[Option<Count>]| {
            let Floor { steps, over, more } = ending.floor(counts.iter().copied());
            (steps, over, more)
        };
        assert_eq!(floor(Ending::Drop, &[ended(3), open(5)]), (3, true, 0));
        assert_eq!(floor(Ending::Drop, &[ended(3), open(2)]), (2, false, 0));
        assert_eq!(floor(Ending::Drop, &[ended(0), None]), (0, false, 0), "it may not have begun the epoch");
        assert_eq!(floor(Ending::Error, &[ended(3), open(3)]), (3, false, 0), "the other may end there, too");
        assert_eq!(floor(Ending::Error, &[ended(3), open(4), ended(3)]), (3, true, 1));
        assert_eq!(floor(Ending::Error, &[ended(3), ended(3)]), (3, true, 0));
        assert_eq!(floor(Ending::Pad, &[ended(3), open(5)]), (5, false, 0));
        assert_eq!(floor(Ending::Pad, &[ended(3), ended(5)]), (5, true, 0));
        assert_eq!(floor(Ending::Pad, &[ended(0), open(0)]), (0, false, 0));
        assert_eq!(floor(Ending::Pad, &[ended(0), open(1), ended(0)]), (0, true, 1));
        assert_eq!(floor(Ending::Pad, &[ended(0), ended(0)]), (0, true, 0));
    }

    proptest! {
        /// In any order in which counts become known, floors rise to the same end and never beyond it.
        #[test]
        fn a_floor_rises_to_the_end_that_the_last_counts_give(
            lasts in prop::collection::vec(0u64..6, 1..5),
            order in prop::collection::vec(0usize..8, 0..60),
            ending in prop::sample::select(vec![Ending::Drop, Ending::Pad, Ending::Error]),
        ) {
            let end = ending.floor(lasts.iter().map(|last| ended(*last)));
            prop_assert!(end.over);
            let mut counts: Vec<Option<Count>> = vec![None; lasts.len()];
            let mut before = Floor::default();
            for consumer in order.into_iter().chain((0..lasts.len() * 8).map(|i| i / 8)) {
                let consumer = consumer % lasts.len();
                let has = counts[consumer].map_or(0, |count| count.has + 1);
                counts[consumer] = if has > lasts[consumer] { ended(lasts[consumer]) } else { open(has) };
                let floor = ending.floor(counts.iter().copied());
                prop_assert!(floor.steps >= before.steps && floor.steps <= end.steps);
                // With pad, a consumer without a batch ends the epoch before others are known to have one.
                prop_assert!(!floor.over || (floor.steps == end.steps && (floor.more > 0) == (end.more > 0)));
                prop_assert!(!before.over || floor.over);
                before = floor;
            }
            prop_assert_eq!(before, end);
        }
    }
}
