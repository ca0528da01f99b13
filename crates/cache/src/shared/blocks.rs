//! How the rows of blocks come to be found, and are forgotten: of those on disk, at peers and in the store alike.
//!
//! Invariant: what finds them is counted before it is kept, and taken off when it is gone.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::{Cell, Shared};
use crate::disk::{Block, Head, Layout, Name, Tier, Trouble, Unread, open};
use crate::index::{FILE_BYTES, Index, Level, NO_NUMBER, Number, Numbering, ROW_BYTES};
use crate::lock::{lock, read, write};
use crate::space::{LastHit, Victim};
use crate::stats::add;
use crate::table::{Shape, Table};

/// What a block costs in memory besides its rows.
const BLOCK_BYTES: u64 = 1024;
/// What a row in a block costs in memory for its sum, and for where each part of it begins.
const WORD_BYTES: u64 = 8;

/// A block whose head was read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) head: Head,
    pub(crate) layout: Layout,
    pub(crate) name: Name,
    pub(crate) len: u64,
    pub(crate) last_hit: Arc<LastHit>,
}

impl Shared {
    /// Reads the heads of the blocks of a prefix that it does not know.
    pub(super) fn load(&self, tier: &Tier, cell: &Cell) {
        for unread in tier.blocks(cell.key) {
            if read(&cell.index).block(Level::Disk, unread.id).is_some() {
                continue;
            }
            let block = Victim { prefix: cell.key, block: unread.id };
            if let Err(trouble) = self.load_block(tier, cell, unread) {
                tier.drop_block(block, &trouble);
            }
        }
        self.shrink();
    }

    fn load_block(&self, tier: &Tier, cell: &Cell, block: Unread) -> Result<(), Trouble> {
        let Unread { id, name, len, last_hit } = block;
        let (head, layout) = open(&File::open(tier.folder().path(&name))?)?;
        self.take_in(Level::Disk, cell, id, Opened { head, layout, name, len, last_hit })
    }

    /// Lets the rows of a block be found that was opened.
    pub(crate) fn take_in(&self, level: Level, cell: &Cell, id: u32, block: Opened) -> Result<(), Trouble> {
        let Opened { head, layout, name, len, last_hit } = block;
        if head.prefix != cell.key || head.schema != *cell.schema {
            return Err(Trouble::Broken("it is not of its folder's prefix".to_owned()));
        }
        let nothing = Table::new(Vec::new(), 0);
        let right = |(i, key): (usize, &crate::RowKey)| nothing.sum(key, i) == layout.sums[i];
        if head.without && !layout.keys.iter().enumerate().all(right) {
            return Err(Trouble::Broken("a row's sum is wrong".to_owned()));
        }
        if let Some(picos) = head.picos_per_byte {
            lock(&self.uses).told(cell.key, picos as f64 / 1000.0);
        }
        last_hit.set(self.passes(cell.key));
        let mut index = write(&cell.index);
        let mut numbering = Numbering::default();
        let number = |key| {
            numbering.find(&index, key).unwrap_or_else(|| {
                if self.count_index(FILE_BYTES) { numbering.give(&mut index, key) } else { NO_NUMBER }
            })
        };
        let numbers: Vec<Number> = layout.keys.iter().map(number).collect();
        if head.without {
            if self.count_index(numbers.len() as u64 * ROW_BYTES) {
                let new = index.add_without(&numbers);
                self.uncount_index((numbers.len() as u64 - new) * ROW_BYTES);
            }
        } else {
            let asked = AtomicU32::new(0);
            let block = Block { name, len, layout, numbers, index_bytes: 0, last_hit, asked };
            self.index_block(level, cell, &mut index, id, block);
        }
        Ok(())
    }

    /// Takes in a block that was just published.
    pub(crate) fn add_block(&self, level: Level, cell: &Cell, block: &Unread, layout: Layout, numbers: Vec<Number>) {
        let Unread { id, name, len, last_hit } = block.clone();
        let block = Block { name, len, layout, numbers, index_bytes: 0, last_hit, asked: AtomicU32::new(0) };
        self.index_block(level, cell, &mut write(&cell.index), id, block);
    }

    /// Lets the rows of a block be found, if there is memory for that.
    fn index_block(&self, level: Level, cell: &Cell, index: &mut Index, id: u32, block: Block) {
        if index.block(level, id).is_some() {
            return;
        }
        let any = cell.shapes.iter().filter(|shape| **shape == Shape::Any).count() as u64;
        let row_bytes = ROW_BYTES + WORD_BYTES * (1 + any);
        let index_bytes = BLOCK_BYTES + block.numbers.len() as u64 * row_bytes;
        if block.numbers.contains(&NO_NUMBER) || !self.count_index(index_bytes) {
            return add(&cell.counters.unindexed, block.numbers.len());
        }
        // The keys are numbers from now on.
        let layout = Layout { keys: Vec::new(), ..block.layout };
        index.add_block(level, id, Arc::new(Block { layout, index_bytes, ..block }));
    }

    /// Forgets blocks on disk that are gone.
    pub(crate) fn forget_blocks(&self, gone: &[Victim]) {
        for victim in gone {
            self.sources.forget(self, victim.block);
            let Some(cell) = lock(&self.cells).get(&victim.prefix).cloned() else { continue };
            let rows = self.forget_block(Level::Disk, &cell, victim.block);
            add(&cell.counters.disk_evicted, rows);
        }
    }

    /// Forgets a block; returns how many rows it had.
    pub(crate) fn forget_block(&self, level: Level, cell: &Cell, id: u32) -> usize {
        let block = write(&cell.index).drop_block(level, id);
        block.map_or(0, |block| {
            self.uncount_index(block.index_bytes);
            block.numbers.len()
        })
    }
}
