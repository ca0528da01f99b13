//! The rows of a part of a split: a computed map from a row of the part to a row of the whole, and back.
//!
//! Of each run of [`RUN`] rows, a part gets the number of rows that keeps its total nearest below its share. A
//! permutation, keyed by the seed and the number of the run, chooses them. So a part keeps the order of the rows, has
//! exactly its share, and any of its rows is found in constant time. The permutations never change: users' test sets
//! depend on them.

use forebay_core::{Epoch, Seed, rng::op_key};

use crate::epoch::permute::Permutation;
use crate::ops::Part;

const RUN: u64 = Part::RUN;

/// The rows of one part.
#[derive(Debug, Clone)]
pub(super) struct PartRows {
    part: Part,
    rows: u64,
    /// The last used run, with a bit for each of its rows: whether the row is in this part.
    last: Option<(u64, u64)>,
}

impl PartRows {
    pub(super) fn new(part: Part, rows: u64) -> Self {
        Self { part, rows, last: None }
    }

    /// Returns the number of its rows.
    pub(super) fn len(&self) -> u64 {
        self.part.count(self.rows)
    }

    /// Returns the number of its rows among the first `run` runs.
    fn before(&self, run: u64) -> u64 {
        self.part.count(run.saturating_mul(RUN).min(self.rows))
    }

    /// Returns the row of the whole that is at `place` of the part.
    pub(super) fn row_at(&mut self, place: u64) -> u64 {
        let chosen = self.part.share - self.part.from.unwrap_or(0);
        let share = if self.part.rest { Part::WHOLE - chosen } else { chosen };
        let mut run = ((u128::from(place) << 32) / (u128::from(share) * u128::from(RUN))) as u64;
        while run > 0 && self.before(run) > place {
            run -= 1;
        }
        while self.before(run + 1) <= place {
            run += 1;
        }
        let (mut bits, skipped) = (self.bits(run), place - self.before(run));
        for _ in 0..skipped {
            bits &= bits - 1;
        }
        run * RUN + u64::from(bits.trailing_zeros())
    }

    /// Returns the number of its rows before a row of the whole.
    pub(super) fn place_of(&mut self, row: u64) -> u64 {
        let row = row.min(self.rows);
        let (run, inside) = (row / RUN, row % RUN);
        let below = self.bits(run) & ((1 << inside) - 1);
        self.before(run) + u64::from(below.count_ones())
    }

    fn bits(&mut self, run: u64) -> u64 {
        if let Some((last, bits)) = self.last
            && last == run
        {
            return bits;
        }
        let len = self.rows.saturating_sub(run * RUN).min(RUN);
        let (before, behind) = (self.part.chosen((run * RUN).min(self.rows)), self.part.chosen(run * RUN + len));
        let mut places: Vec<u64> = (behind.0 - before.0..behind.1 - before.1).collect();
        Permutation::new(len, op_key(Seed(self.part.seed), Epoch(0), run)).map(&mut places);
        let bits = places.iter().fold(0u64, |bits, place| bits | 1 << place);
        let all = if len == RUN { u64::MAX } else { (1 << len) - 1 };
        let bits = if self.part.rest { all & !bits } else { bits };
        self.last = Some((run, bits));
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_disjoint_complete_in_order_and_found_at_any_place(
            rows in 0u64..1000, share in 1u64..Part::WHOLE, seed: u64,
        ) {
            let part = |rest| PartRows::new(Part { share, from: None, seed, rest }, rows);
            let all = |mut part: PartRows| (0..part.len()).map(|place| part.row_at(place)).collect::<Vec<_>>();
            let (first, rest) = (all(part(false)), all(part(true)));
            prop_assert!(first.is_sorted_by(|a, b| a < b) && rest.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(first.len() as u64, ((u128::from(rows) * u128::from(share)) >> 32) as u64);
            let mut together = [&first[..], &rest].concat();
            together.sort_unstable();
            prop_assert_eq!(together, (0..rows).collect::<Vec<_>>());
            for (rest, list) in [(false, &first), (true, &rest)] {
                let mut found = part(rest);
                for row in (0..=rows).rev() {
                    let before = list.iter().filter(|own| **own < row).count() as u64;
                    prop_assert_eq!(found.place_of(row), before);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn folds_are_disjoint_complete_and_each_is_all_but_its_rest(rows in 0u64..1000, folds in 2u64..33, seed: u64) {
            let edge = |fold: u64| (fold * Part::WHOLE).div_ceil(folds);
            let all = |mut part: PartRows| (0..part.len()).map(|place| part.row_at(place)).collect::<Vec<_>>();
            let mut together = Vec::new();
            for fold in 0..folds {
                let part = Part { share: edge(fold + 1), from: Some(edge(fold)), seed, rest: false };
                let own = all(PartRows::new(part.clone(), rows));
                let rest = all(PartRows::new(Part { rest: true, ..part }, rows));
                prop_assert!(own.is_sorted_by(|a, b| a < b) && rest.is_sorted_by(|a, b| a < b));
                prop_assert!((own.len() as u64).abs_diff(rows / folds) <= 2);
                let mut both = [&own[..], &rest].concat();
                both.sort_unstable();
                prop_assert_eq!(both, (0..rows).collect::<Vec<_>>());
                together.extend(own);
            }
            together.sort_unstable();
            prop_assert_eq!(together, (0..rows).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_part_of_many_rows_is_found_at_once_and_is_the_same_for_ever() {
        let part = |rest| PartRows::new(Part { share: Part::WHOLE / 10 * 9, from: None, seed: 7, rest }, 1 << 50);
        let at: Vec<u64> = [0, 1, 1 << 40].map(|place| part(false).row_at(place)).to_vec();
        assert!(at[2].abs_diff((1 << 40) / 9 * 10) < 1 << 12, "{at:?}");
        let few: Vec<u64> = (0..8)
            .map(|place| PartRows::new(Part { share: 1 << 30, from: None, seed: 3, rest: false }, 64).row_at(place))
            .collect();
        assert_eq!(few, GOLDEN);
    }

    /// The first rows of a quarter of 64 rows, by seed 3.
    const GOLDEN: [u64; 8] = [2, 3, 4, 7, 8, 9, 10, 27];
}
