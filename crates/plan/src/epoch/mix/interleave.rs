//! The order of `interleave`: tf.data's, with the place of each row computed from the lengths of the datasets.
//!
//! A cycle of slots is visited in turn. Each visit takes a block of rows from the dataset in the slot. A dataset is found
//! to have ended where it has fewer rows left than a block; its slot is empty until its next visit, when the next dataset
//! takes it. Rounds in which no slot changes are one run, so a place is found by a search among a few runs for each
//! dataset.

/// The order of datasets that are interleaved.
#[derive(Debug, Clone)]
pub(super) struct Interleaving {
    runs: Vec<Run>,
    len: u64,
}

/// Equal rounds through the slots.
#[derive(Debug, Clone)]
struct Run {
    /// Its first place.
    start: u64,
    /// The rows of one round.
    round: u64,
    visits: Vec<Visit>,
}

/// Rows of one dataset in a round.
#[derive(Debug, Clone, Copy)]
struct Visit {
    part: usize,
    /// The first row in the first round; those of the next round follow.
    row: u64,
    /// The place in the round behind its rows.
    end: u64,
    /// Its rows.
    rows: u64,
}

impl Interleaving {
    /// Plans datasets with so many rows, `cycle` at a time, `block` rows of each in turn. `None` if the sum of rows is
    /// 2^63 or more.
    pub(super) fn new(cycle: u64, block: u64, lens: &[u64]) -> Option<Self> {
        let len = lens.iter().try_fold(0u64, |sum, len| sum.checked_add(*len)).filter(|len| *len <= i64::MAX as u64)?;
        let block = block.max(1);
        // The dataset in each slot, and its next row.
        let mut slots: Vec<Option<(usize, u64)>> = vec![None; usize::try_from(cycle).ok()?.clamp(1, lens.len().max(1))];
        let (mut next, mut runs, mut start) = (0, Vec::new(), 0);
        while start < len {
            let rounds = whole_rounds(&slots, block, lens, next);
            let mut visits: Vec<Visit> = Vec::with_capacity(slots.len());
            let mut round = 0;
            for slot in &mut slots {
                if slot.is_none() && next < lens.len() {
                    *slot = Some((next, 0));
                    next += 1;
                }
                let Some((part, row)) = slot else { continue };
                let rows = (lens[*part] - *row).min(block);
                if rows > 0 {
                    round += rows;
                    visits.push(Visit { part: *part, row: *row, end: round, rows });
                }
                *row += rows * rounds;
                if rows < block {
                    *slot = None;
                }
            }
            if round > 0 {
                runs.push(Run { start, round, visits });
            }
            start += round * rounds;
        }
        Some(Self { runs, len })
    }

    /// Returns the number of places.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the dataset of a place, which is below the length, and its row there.
    pub(super) fn find(&self, place: u64) -> (usize, u64) {
        let run = &self.runs[self.runs.partition_point(|run| run.start <= place).saturating_sub(1)];
        let (round, inside) = ((place - run.start) / run.round, (place - run.start) % run.round);
        let visit = &run.visits[run.visits.partition_point(|visit| visit.end <= inside)];
        (visit.part, visit.row + round * visit.rows + inside - (visit.end - visit.rows))
    }
}

/// Returns how many rounds are alike: as many as each dataset in a slot has whole blocks, if no slot takes another one.
fn whole_rounds(slots: &[Option<(usize, u64)>], block: u64, lens: &[u64], next: usize) -> u64 {
    let blocks = |slot: &Option<(usize, u64)>| match slot {
        Some((part, row)) => (lens[*part] - row) / block,
        None if next < lens.len() => 0,
        None => u64::MAX,
    };
    slots.iter().map(blocks).min().filter(|rounds| *rounds < u64::MAX).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// tf.data's `InterleaveDataset`, element by element.
    fn one_by_one(cycle: usize, block: u64, lens: &[u64]) -> Vec<(usize, u64)> {
        let (mut open, mut next, mut at, mut in_block) = (vec![None::<(usize, u64)>; cycle], 0, 0, 0);
        let mut found = Vec::new();
        while next < lens.len() || open.iter().any(Option::is_some) {
            match &mut open[at] {
                Some((part, row)) if *row < lens[*part] => {
                    found.push((*part, *row));
                    *row += 1;
                    in_block += 1;
                    if in_block == block {
                        (at, in_block) = ((at + 1) % cycle, 0);
                    }
                }
                Some(_) => {
                    open[at] = None;
                    (at, in_block) = ((at + 1) % cycle, 0);
                }
                None if next < lens.len() => {
                    open[at] = Some((next, 0));
                    next += 1;
                }
                None => (at, in_block) = ((at + 1) % cycle, 0),
            }
        }
        found
    }

    proptest! {
        #[test]
        fn rows_come_in_the_order_of_tf_data(
            lens in prop::collection::vec(prop_oneof![Just(0u64), 1u64..40], 1..9), cycle in 1usize..10, block in 1u64..12,
        ) {
            let plan = Interleaving::new(cycle as u64, block, &lens).expect("a plan");
            let got: Vec<_> = (0..plan.len()).map(|place| plan.find(place)).collect();
            prop_assert_eq!(got, one_by_one(cycle, block, &lens));
        }
    }

    #[test]
    fn long_datasets_take_no_time() {
        let plan = Interleaving::new(2, 3, &[1 << 40, 1 << 40, 7]).expect("a plan");
        assert!(plan.runs.len() < 12, "{}", plan.runs.len());
        assert_eq!(plan.find(6 << 30), (0, 3 << 30));
        assert!(Interleaving::new(2, 1, &[u64::MAX, 1]).is_none());
        assert!(Interleaving::new(2, 1, &[1 << 62, 1 << 62]).is_none());
    }
}
