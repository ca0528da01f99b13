//! Adds the rows of blocks to the index of their prefix, and removes them, for blocks on disk, at peers and in the
//! store.
//!
//! Invariant: the memory of the index is counted before it is used, and no longer counted when it is freed.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::lock::{lock, write};
use crate::quota::accounts::{LastHit, Victim};
use crate::rows::index::{FILE_BYTES, Index, Numbering, ROW_BYTES};
use crate::rows::number::{NO_NUMBER, Number};
use crate::rows::table::{Shape, Table};
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::add;
use crate::tiers::TierId;
use crate::tiers::block::format::BlockHeader;
use crate::tiers::block::layout::Layout;
use crate::tiers::block::name::Name;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::block::{Block, BlockRef};

/// The memory of a block besides its rows.
const BLOCK_BYTES: u64 = 1024;
/// The memory of a row of a block for its sum, and for each offset of a part of variable length.
const WORD_BYTES: u64 = 8;

/// A block whose header was read.
#[derive(Debug)]
pub(crate) struct OpenedBlock {
    pub(crate) header: BlockHeader,
    pub(crate) layout: Layout,
    pub(crate) name: Name,
    pub(crate) len: u64,
    pub(crate) last_hit: Arc<LastHit>,
}

impl CacheState {
    /// Adds the rows of an opened block to the index.
    pub(crate) fn take_in(
        &self,
        tier: TierId,
        state: &PrefixState,
        id: u32,
        block: OpenedBlock,
    ) -> Result<(), Trouble> {
        let OpenedBlock { header, layout, name, len, last_hit } = block;
        if header.prefix != state.key || header.schema != *state.schema {
            return Err(Trouble::Broken("it is not of its folder's prefix".to_owned()));
        }
        let nothing = Table::new(Vec::new(), 0);
        let right = |(i, key): (usize, &crate::key::RowKey)| nothing.sum(key, i) == layout.sums[i];
        if header.filtered_out && !layout.keys.iter().enumerate().all(right) {
            return Err(Trouble::Broken("a row's sum is wrong".to_owned()));
        }
        if let Some(picos) = header.picos_per_byte {
            lock(&self.uses).told(state.key, picos as f64 / 1000.0);
        }
        last_hit.set(self.passes(state.key));
        let mut index = write(&state.index);
        let mut numbering = Numbering::default();
        let number = |key| {
            numbering.find(&index, key).unwrap_or_else(|| {
                if self.memory().count_index(FILE_BYTES) { numbering.give(&mut index, key) } else { NO_NUMBER }
            })
        };
        let numbers: Vec<Number> = layout.keys.iter().map(number).collect();
        if header.filtered_out {
            if self.memory().count_index(numbers.len() as u64 * ROW_BYTES) {
                let new = index.add_filtered_out(&numbers);
                self.memory().uncount_index((numbers.len() as u64 - new) * ROW_BYTES);
            }
        } else {
            let asked = AtomicU32::new(0);
            let block = Block { name, len, layout, numbers, index_bytes: 0, last_hit, asked };
            self.index_block(tier, state, &mut index, id, block);
        }
        Ok(())
    }

    /// Adds a block that was just published to the index.
    pub(crate) fn add_block(
        &self,
        tier: TierId,
        state: &PrefixState,
        block: &BlockRef,
        layout: Layout,
        numbers: Vec<Number>,
    ) {
        let BlockRef { id, name, len, last_hit } = block.clone();
        let block = Block { name, len, layout, numbers, index_bytes: 0, last_hit, asked: AtomicU32::new(0) };
        self.index_block(tier, state, &mut write(&state.index), id, block);
    }

    /// Adds the rows of a block to the index, if there is memory.
    fn index_block(&self, tier: TierId, state: &PrefixState, index: &mut Index, id: u32, block: Block) {
        if index.block(tier, id).is_some() {
            return;
        }
        let any = state.shapes.iter().filter(|shape| **shape == Shape::Any).count() as u64;
        let row_bytes = ROW_BYTES + WORD_BYTES * (1 + any);
        let index_bytes = BLOCK_BYTES + block.numbers.len() as u64 * row_bytes;
        if block.numbers.contains(&NO_NUMBER) || !self.memory().count_index(index_bytes) {
            return add(&state.counters.unindexed, block.numbers.len());
        }
        // The index stores numbers instead of keys.
        let layout = Layout { keys: Vec::new(), ..block.layout };
        index.add_block(tier, id, Arc::new(Block { layout, index_bytes, ..block }));
    }

    /// Forgets blocks that are gone from the disk.
    pub(crate) fn forget_blocks(&self, gone: &[Victim]) {
        for victim in gone {
            self.pages.forget(self.memory(), victim.block);
            let Some(state) = lock(&self.prefixes).get(&victim.prefix).cloned() else { continue };
            let rows = self.forget_block(TierId::Disk, &state, victim.block);
            add(&state.counters.disk_evicted, rows);
        }
    }

    /// Forgets a block; returns the number of its rows.
    pub(crate) fn forget_block(&self, tier: TierId, state: &PrefixState, id: u32) -> usize {
        let block = write(&state.index).drop_block(tier, id);
        block.map_or(0, |block| {
            self.memory().uncount_index(block.index_bytes);
            block.numbers.len()
        })
    }
}
