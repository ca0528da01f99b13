//! Reads the rows of one lookup from a tier below memory: block by block, each row into its place, and checked against
//! its sum.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_data::Memory;

use crate::quota::accounts::Victim;
use crate::rows::admit::promote;
use crate::rows::index::{BlockSlot, Index, Mixed, Number};
use crate::rows::prefix::Answer;
use crate::rows::table::Place;
use crate::state::{CacheState, PrefixState};
use crate::stats::add;
use crate::tiers::Tier;
use crate::tiers::block::Block;
use crate::tiers::block::format::{Layout, Trouble};
use crate::tiers::block::read::{Reading, Want, are_right, bytes_of, ranges};
use crate::tiers::store::range_buffer::RangeBuffer;
use crate::tiers::store::read::BlockRanges;

/// A block of the store is copied to the local disk at its second read.
const COPY_AFTER: u32 = 2;

/// See the module's documentation.
pub(crate) struct TierRead {
    tier: Tier,
    blocks: Vec<(u32, Arc<Block>, Vec<Want>)>,
    /// The place of a block in `blocks`, by its number.
    places: HashMap<u32, usize, BuildHasherDefault<Mixed>>,
    last: Option<(u32, usize)>,
    /// The rows, by their slots.
    rows: Vec<(u32, Number)>,
}

impl TierRead {
    /// Begins without rows.
    pub(crate) fn new(tier: Tier) -> Self {
        Self { tier, blocks: Vec::new(), places: HashMap::default(), last: None, rows: Vec::new() }
    }

    /// Adds a row that the index has in this tier, if its block is still there.
    pub(crate) fn want(&mut self, row: u32, number: Number, slot: BlockSlot, index: &Index) -> bool {
        let Some(block) = index.block(self.tier, slot.block) else { return false };
        let place = match self.last {
            Some((id, place)) if id == slot.block => place,
            _ => *self.places.entry(slot.block).or_insert_with(|| {
                self.blocks.push((slot.block, block.clone(), Vec::new()));
                self.blocks.len() - 1
            }),
        };
        self.last = Some((slot.block, place));
        let want = Want { slot: self.rows.len(), row: slot.row as usize, key: index.key_of(number) };
        self.blocks[place].2.push(want);
        self.rows.push((row, number));
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reads the rows into the answer. Returns the number of rows that were read, and the rows that were not. Blocks
    /// that cannot be read are forgotten.
    pub(crate) fn read(
        mut self,
        cache: &CacheState,
        state: &Arc<PrefixState>,
        answer: &mut Answer,
        memory: &Memory,
    ) -> (usize, Vec<(u32, Number)>) {
        self.blocks.iter_mut().for_each(|(_, _, wants)| wants.sort_unstable_by_key(|want| want.row));
        let Some(fetched) = self.fetch(cache, state) else { return (0, self.rows) };
        let layouts: Vec<(&Layout, &[Want])> =
            self.blocks.iter().map(|(_, block, wants)| (&block.layout, &wants[..])).collect();
        let mut reading = Reading::new(&state.shapes, &layouts, self.rows.len(), memory);
        let mut troubles: Vec<Option<Trouble>> = Vec::new();
        for ((_, block, wants), fetched) in self.blocks.iter().zip(fetched) {
            block.last_hit.set(answer.passes);
            let read = match fetched {
                Fetched::Ranges(buffer) => buffer.and_then(|buffer| reading.read(&buffer, &block.layout, wants)),
                Fetched::File => open_file(cache, block).and_then(|file| reading.read(&file, &block.layout, wants)),
            };
            troubles.push(read.err());
        }
        let table = reading.finish();
        let mut unread = vec![false; self.rows.len()];
        for ((id, block, wants), trouble) in self.blocks.iter().zip(troubles) {
            let wrong = || (!are_right(&table, &block.layout, wants)).then(|| "a row's sum is wrong".to_owned());
            let Some(trouble) = trouble.or_else(|| wrong().map(Trouble::Broken)) else { continue };
            wants.iter().for_each(|want| unread[want.slot] = true);
            let late = self.tier != Tier::Disk && matches!(trouble, Trouble::Later(_));
            add(if late { &state.counters.late } else { &state.counters.unreadable }, wants.len());
            forget(cache, state, self.tier, (*id, block), &trouble);
        }
        let good: Vec<(Number, u32)> =
            (0..).zip(&self.rows).filter(|(i, _)| !unread[*i as usize]).map(|(i, (_, number))| (*number, i)).collect();
        promote(cache, state, &table, &good, self.tier);
        let id = answer.found.push(table, true);
        good.iter()
            .for_each(|(_, slot)| answer.found.put(self.rows[*slot as usize].0, Place { table: id, row: *slot }));
        let missing = self.rows.iter().zip(unread).filter(|(_, unread)| *unread).map(|(row, _)| *row).collect();
        (good.len(), missing)
    }
}

/// Where the wanted bytes of a block are read from.
enum Fetched {
    /// A file of the local disk.
    File,
    /// Ranges that were read from a remote tier.
    Ranges(Result<RangeBuffer, Trouble>),
}

impl TierRead {
    /// Reads the wanted ranges of all blocks from a remote tier at once. Returns `None` where computing the rows costs
    /// less, or the tier is not asked now.
    fn fetch(&self, cache: &CacheState, state: &Arc<PrefixState>) -> Option<Vec<Fetched>> {
        let Some(remote) = cache.remote(self.tier) else {
            return Some(self.blocks.iter().map(|_| Fetched::File).collect());
        };
        let bytes: u64 = self.blocks.iter().map(|(_, block, wants)| bytes_of(&block.layout, wants)).sum();
        let compute = cache.cost(state).map(|nanos_per_byte| nanos_per_byte * bytes as f64);
        if !remote.is_read() {
            add(&state.counters.late, self.rows.len());
            return None;
        }
        if !remote.pays(bytes, compute) {
            add(&state.counters.cheaper, self.rows.len());
            return None;
        }
        let gap = remote.gap();
        let held =
            |(_, block, wants): &'_ (u32, Arc<Block>, Vec<Want>)| (block.clone(), ranges(&block.layout, wants, gap));
        let held: Vec<_> = self.blocks.iter().map(held).collect();
        let held: Vec<BlockRanges<'_>> = held
            .iter()
            .map(|(block, ranges)| BlockRanges { name: &block.name, len: block.len, ranges: ranges.clone() })
            .collect();
        let fetched = remote.fetch(&held, compute);
        // Blocks of peers are not copied: peers are near enough.
        if self.tier == Tier::Store && cache.disk().is_some() {
            for (id, block, _) in &self.blocks {
                let often = block.asked.fetch_add(1, Ordering::Relaxed) + 1 == COPY_AFTER;
                if often && !remote.copy_to_disk(state, *id) {
                    block.asked.store(0, Ordering::Relaxed);
                }
            }
        }
        Some(fetched.into_iter().map(Fetched::Ranges).collect())
    }
}

fn open_file(cache: &CacheState, block: &Block) -> Result<File, Trouble> {
    let disk = cache.disk().ok_or(Trouble::Gone)?;
    Ok(File::open(disk.folder().path(&block.name))?)
}

/// Forgets a block that cannot be read, unless a later read may succeed.
fn forget(cache: &CacheState, state: &Arc<PrefixState>, tier: Tier, (id, block): (u32, &Block), trouble: &Trouble) {
    if !matches!(trouble, Trouble::Later(_)) {
        cache.forget_block(tier, state, id);
    }
    match (cache.remote(tier), cache.disk()) {
        (Some(remote), _) => remote.drop_block(state, &block.name, block.len, trouble),
        (None, Some(disk)) => disk.drop_block(Victim { prefix: state.key, block: id }, trouble),
        (None, None) => {}
    }
}
