//! Where each row of one prefix is: in memory, on disk, at peers, in the store, in flight, or filtered out.
//!
//! A row is found by its number: the number of its file, assigned when the file is first seen, and the row in that
//! file. Invariants: an entry names only blocks that the index has. A row is in at most one [`InFlight`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use forebay_core::SampleId;
use forebay_core::rng::mix64;

use crate::key::{FileKey, RowKey};
use crate::quota::accounts::LastHit;
use crate::rows::in_flight::InFlight;
use crate::rows::table::Table;
use crate::tiers::TierId;
use crate::tiers::block::Block;
use crate::tiers::peers::exports::export_index::ExportIndex;

/// The memory of a row besides its bytes: its entry (40 bytes, in a hash table that is half full after it has grown)
/// and its number in its block.
pub(crate) const ROW_BYTES: u64 = 96;
/// The memory of a file.
pub(crate) const FILE_BYTES: u64 = 64;

/// A row of a prefix in this process: the number of its file, and the row, as in [`SampleId`].
pub(crate) type Number = u64;
/// A row that cannot be kept, because its file number or its row is too large.
pub(crate) const NO_NUMBER: Number = u64::MAX;

/// The place of a row in one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSlot {
    pub(crate) block: u32,
    pub(crate) row: u32,
}

impl BlockSlot {
    /// Not in the tier.
    pub(crate) const NOWHERE: Self = Self { block: u32::MAX, row: 0 };
    /// A filter removed the row: no tier has it.
    const FILTERED_OUT: Self = Self { block: u32::MAX, row: 1 };

    fn is_in_block(self) -> bool {
        self.block != u32::MAX
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    memory: BlockSlot,
    /// By tier.
    below: [BlockSlot; TierId::ALL.len()],
}

impl Entry {
    const NOWHERE: Self = Self { memory: BlockSlot::NOWHERE, below: [BlockSlot::NOWHERE; TierId::ALL.len()] };

    fn is_nowhere(&self) -> bool {
        self.memory == BlockSlot::NOWHERE && self.below == Self::NOWHERE.below
    }
}

/// The place of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowLocation {
    Memory(BlockSlot),
    InTier(TierId, BlockSlot),
    /// A filter removed it.
    FilteredOut,
    Missing,
}

/// Rows in memory.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) table: Table,
    pub(crate) numbers: Vec<Number>,
    pub(crate) last_hit: Arc<LastHit>,
}

/// The rows of a prefix.
#[derive(Debug, Default)]
pub(crate) struct Index {
    files: HashMap<FileKey, u32, BuildHasherDefault<Mixed>>,
    /// The files by number.
    keys: Vec<FileKey>,
    rows: HashMap<Number, Entry, BuildHasherDefault<Mixed>>,
    pub(crate) in_flight: HashMap<Number, Arc<InFlight>, BuildHasherDefault<Mixed>>,
    segments: HashMap<u32, Arc<Segment>, BuildHasherDefault<Mixed>>,
    /// By tier.
    blocks: [HashMap<u32, Arc<Block>, BuildHasherDefault<Mixed>>; TierId::ALL.len()],
    /// The snapshots of rows in memory that peers may read.
    pub(crate) exports: ExportIndex,
    next: u32,
    filtered_out: u64,
    /// The number of rows in each tier.
    below: [u64; TierId::ALL.len()],
}

/// Finds the numbers of rows; fast for consecutive rows of one file.
#[derive(Debug, Default)]
pub(crate) struct Numbering(Option<(FileKey, u32)>);

fn number(file: u32, row: u64) -> Number {
    let fits = u64::from(file) < SampleId::BLOCKS_MAX - 1 && row < SampleId::ROWS_MAX;
    if fits { SampleId::new(file.into(), row).0 } else { NO_NUMBER }
}

impl Numbering {
    /// Returns the number of a row whose file is known.
    pub(crate) fn find(&mut self, index: &Index, key: &RowKey) -> Option<Number> {
        let known = self.0.filter(|(file, _)| *file == key.file);
        let known = known.or_else(|| index.files.get(&key.file).map(|&n| (key.file, n)));
        self.0 = known.or(self.0);
        known.map(|(_, file)| number(file, key.row))
    }

    /// Numbers a new file, and returns the number of the row.
    pub(crate) fn give(&mut self, index: &mut Index, key: &RowKey) -> Number {
        let file = u32::try_from(index.keys.len()).unwrap_or(u32::MAX);
        index.files.insert(key.file, file);
        index.keys.push(key.file);
        self.0 = Some((key.file, file));
        number(file, key.row)
    }
}

impl Index {
    /// Returns the nearest place of a row.
    pub(crate) fn location(&self, number: Number) -> RowLocation {
        match self.rows.get(&number) {
            None => RowLocation::Missing,
            Some(entry) if entry.memory.is_in_block() => RowLocation::Memory(entry.memory),
            Some(entry) if entry.memory == BlockSlot::FILTERED_OUT => RowLocation::FilteredOut,
            Some(entry) => {
                let below = TierId::ALL.into_iter().zip(entry.below).find(|(_, slot)| slot.is_in_block());
                below.map_or(RowLocation::Missing, |(tier, slot)| RowLocation::InTier(tier, slot))
            }
        }
    }

    pub(crate) fn segment(&self, block: u32) -> Option<&Arc<Segment>> {
        self.segments.get(&block)
    }

    pub(crate) fn block(&self, tier: TierId, block: u32) -> Option<&Arc<Block>> {
        self.blocks[tier as usize].get(&block)
    }

    /// Returns the bytes of a row, if it is in memory or on the disk of this process.
    pub(crate) fn bytes_here(&self, location: RowLocation) -> Option<usize> {
        match location {
            RowLocation::Memory(slot) => Some(self.segment(slot.block)?.table.row_bytes(slot.row as usize)),
            RowLocation::InTier(tier @ TierId::Disk, slot) => {
                Some(self.block(tier, slot.block)?.layout.row_bytes(slot.row as usize))
            }
            _ => None,
        }
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.segments.values()
    }

    pub(crate) fn blocks(&self, tier: TierId) -> impl Iterator<Item = (u32, &Arc<Block>)> {
        self.blocks[tier as usize].iter().map(|(&id, block)| (id, block))
    }

    /// Returns the number of rows that filters removed.
    pub(crate) fn filtered_out(&self) -> u64 {
        self.filtered_out
    }

    /// Returns the number of rows in a tier; a row in several blocks counts once.
    pub(crate) fn rows_on(&self, tier: TierId) -> u64 {
        self.below[tier as usize]
    }

    /// Returns the number of files.
    pub(crate) fn files(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Returns the key of a row by its number.
    pub(crate) fn key_of(&self, number: Number) -> RowKey {
        let place = SampleId(number);
        let file = self.keys.get(place.block() as usize).copied().unwrap_or(FileKey([0; 16]));
        RowKey { file, row: place.row() }
    }

    /// Says whether a row is in a tier, whether or not another tier has it, too.
    pub(crate) fn is_on(&self, tier: TierId, number: Number) -> bool {
        self.rows.get(&number).is_some_and(|entry| entry.below[tier as usize].is_in_block())
    }

    /// Adds a segment. Rows that are in memory already keep their place.
    pub(crate) fn add_segment(&mut self, segment: Arc<Segment>) -> u32 {
        let id = self.next_id();
        for (row, &number) in segment.numbers.iter().enumerate() {
            let entry = self.entry(number);
            if entry.memory == BlockSlot::NOWHERE {
                entry.memory = BlockSlot { block: id, row: row as u32 };
            }
        }
        self.segments.insert(id, segment);
        id
    }

    /// Adds a block, by its number in the accounts of the tier. Rows that are in the tier already keep their place.
    pub(crate) fn add_block(&mut self, tier: TierId, id: u32, block: Arc<Block>) {
        for (row, &number) in block.numbers.iter().enumerate() {
            let slot = &mut self.entry(number).below[tier as usize];
            let new = *slot == BlockSlot::NOWHERE;
            if new {
                *slot = BlockSlot { block: id, row: row as u32 };
            }
            self.below[tier as usize] += u64::from(new);
        }
        self.blocks[tier as usize].insert(id, block);
    }

    /// Records rows that a filter removed. Returns how many of them are new.
    pub(crate) fn add_filtered_out(&mut self, numbers: &[Number]) -> u64 {
        let before = self.filtered_out;
        for &number in numbers {
            let entry = self.entry(number);
            let new = entry.is_nowhere();
            if new {
                entry.memory = BlockSlot::FILTERED_OUT;
            }
            self.filtered_out += u64::from(new);
        }
        self.filtered_out - before
    }

    /// Forgets a segment; returns whether it was there.
    pub(crate) fn drop_segment(&mut self, id: u32) -> bool {
        let Some(segment) = self.segments.remove(&id) else { return false };
        self.exports.forget(id);
        for number in &segment.numbers {
            let Some(entry) = self.rows.get_mut(number).filter(|e| e.memory.block == id) else { continue };
            entry.memory = BlockSlot::NOWHERE;
            if entry.is_nowhere() {
                self.rows.remove(number);
            }
        }
        true
    }

    /// Forgets a block, and returns it if it was there.
    pub(crate) fn drop_block(&mut self, tier: TierId, id: u32) -> Option<Arc<Block>> {
        let at = tier as usize;
        let block = self.blocks[at].remove(&id)?;
        for number in &block.numbers {
            let Some(entry) = self.rows.get_mut(number).filter(|e| e.below[at].block == id) else { continue };
            entry.below[at] = BlockSlot::NOWHERE;
            self.below[at] -= 1;
            if entry.is_nowhere() {
                self.rows.remove(number);
            }
        }
        Some(block)
    }

    fn entry(&mut self, number: Number) -> &mut Entry {
        self.rows.entry(number).or_insert(Entry::NOWHERE)
    }

    /// Segment numbers ascend until they wrap around.
    fn next_id(&mut self) -> u32 {
        loop {
            self.next = (self.next + 1) % u32::MAX;
            if !self.segments.contains_key(&self.next) {
                return self.next;
            }
        }
    }
}

/// Hashes numbers that no untrusted party chooses: file keys are hashes already, rows and blocks are counted.
#[derive(Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = mix64(self.0 ^ n);
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}
