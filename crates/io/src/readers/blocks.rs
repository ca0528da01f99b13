//! Finds the blocks of rows.

use forebay_data::RowId;

/// The blocks of some rows.
pub(super) struct Blocks {
    /// Each once, in order.
    pub(super) numbers: Vec<u64>,
    /// For each block from the first to the last its place in `numbers`; empty where the range is too large.
    places: Vec<u32>,
}

impl Blocks {
    pub(super) fn of(ids: &[RowId]) -> Self {
        let all = || ids.iter().map(|id| id.sample.block());
        let (first, last) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        // Sorting costs more, and so does a search for each row's block.
        let span = (last - first + 1) as usize;
        if span > 64 * ids.len() {
            let mut numbers: Vec<u64> = all().collect();
            numbers.sort_unstable();
            numbers.dedup();
            return Self { numbers, places: Vec::new() };
        }
        let (mut numbers, mut places) = (Vec::new(), vec![0; span]);
        all().for_each(|block| places[(block - first) as usize] = 1);
        for (block, place) in (first..).zip(&mut places).filter(|(_, place)| **place > 0) {
            *place = numbers.len() as u32;
            numbers.push(block);
        }
        Self { numbers, places }
    }

    /// Returns the place in `numbers` of a row's block.
    pub(super) fn place(&self, id: RowId) -> usize {
        let block = id.sample.block();
        let at = self.numbers.first().and_then(|first| self.places.get((block - first) as usize));
        at.map_or_else(|| self.numbers.binary_search(&block).unwrap_or(0), |place| *place as usize)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Epoch, SampleId};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_row_finds_its_block(
            blocks in prop::collection::vec(prop_oneof![0u64..9, 1000..1003u64, 0..SampleId::BLOCKS_MAX], 0..40),
        ) {
            let id = |(row, block): (u64, &u64)| RowId { sample: SampleId::new(*block, row), epoch: Epoch(0) };
            let ids: Vec<_> = (0..).zip(&blocks).map(id).collect();
            let found = Blocks::of(&ids);
            prop_assert!(found.numbers.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(found.numbers.iter().all(|number| blocks.contains(number)));
            for (id, block) in ids.iter().zip(&blocks) {
                prop_assert_eq!(found.numbers[found.place(*id)], *block);
            }
        }
    }
}
