//! Reads the rows of one lookup from a tier below memory: block by block, each row into its place, and checked against
//! its sum.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use forebay_data::Memory;

use crate::rows::admit::promote;
use crate::rows::answer::Answer;
use crate::rows::index::{BlockSlot, Index, Mixed};
use crate::rows::number::Number;
use crate::rows::table::{Place, Table};
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::add;
use crate::tiers::TierId;
use crate::tiers::block::layout::Layout;
use crate::tiers::block::read::{Reading, Want, are_right};
use crate::tiers::block::read_at::Trouble;
use crate::tiers::tier::{BlockTier, WantedBlock};

/// See the module's documentation.
pub(crate) struct TierRead {
    tier: TierId,
    blocks: Vec<WantedBlock>,
    /// The place of a block in `blocks`, by its number.
    places: HashMap<u32, usize, BuildHasherDefault<Mixed>>,
    last: Option<(u32, usize)>,
    /// The rows, by their slots.
    rows: Vec<(u32, Number)>,
}

impl TierRead {
    /// Begins without rows.
    pub(crate) fn new(tier: TierId) -> Self {
        Self { tier, blocks: Vec::new(), places: HashMap::default(), last: None, rows: Vec::new() }
    }

    /// Adds a row that the index has in this tier, if its block is still there.
    pub(crate) fn want(&mut self, row: u32, number: Number, slot: BlockSlot, index: &Index) -> bool {
        let Some(block) = index.block(self.tier, slot.block) else { return false };
        let place = match self.last {
            Some((id, place)) if id == slot.block => place,
            _ => *self.places.entry(slot.block).or_insert_with(|| {
                self.blocks.push(WantedBlock { id: slot.block, block: block.clone(), wants: Vec::new() });
                self.blocks.len() - 1
            }),
        };
        self.last = Some((slot.block, place));
        let want = Want { slot: self.rows.len(), row: slot.row as usize, key: index.key_of(number) };
        self.blocks[place].wants.push(want);
        self.rows.push((row, number));
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows, none of which is read.
    pub(crate) fn into_rows(self) -> Vec<(u32, Number)> {
        self.rows
    }

    /// Reads the rows from their tier into the answer. Returns the number of rows that were read, and the rows that were
    /// not. Blocks that cannot be read are forgotten.
    pub(crate) fn read(
        mut self,
        tier: &dyn BlockTier,
        cache: &CacheState,
        state: &Arc<PrefixState>,
        answer: &mut Answer,
        memory: &Memory,
    ) -> (usize, Vec<(u32, Number)>) {
        self.blocks.iter_mut().for_each(|of| of.wants.sort_unstable_by_key(|want| want.row));
        if !tier.admits_read(cache, state, &self.blocks) {
            return (0, self.rows);
        }
        let (table, troubles) = self.read_blocks(tier, cache, state, answer.passes, memory);
        let mut unread = vec![false; self.rows.len()];
        for (WantedBlock { id, block, wants }, trouble) in self.blocks.iter().zip(troubles) {
            let wrong = || (!are_right(&table, &block.layout, wants)).then(|| "a row's sum is wrong".to_owned());
            let Some(trouble) = trouble.or_else(|| wrong().map(Trouble::Broken)) else { continue };
            wants.iter().for_each(|want| unread[want.slot] = true);
            let is_later = matches!(trouble, Trouble::Later(_));
            let counters = &state.counters;
            add(if is_later && !tier.is_local() { &counters.late } else { &counters.unreadable }, wants.len());
            if !is_later {
                cache.forget_block(self.tier, state, *id);
            }
            tier.give_up(state, *id, block, &trouble);
        }
        let good: Vec<(Number, u32)> =
            (0..).zip(&self.rows).filter(|(i, _)| !unread[*i as usize]).map(|(i, (_, number))| (*number, i)).collect();
        promote(cache, state, &table, &good, tier.promotion());
        let id = answer.found.push(table, true);
        good.iter()
            .for_each(|(_, slot)| answer.found.put(self.rows[*slot as usize].0, Place { table: id, row: *slot }));
        let missing = self.rows.iter().zip(unread).filter(|(_, unread)| *unread).map(|(row, _)| *row).collect();
        (good.len(), missing)
    }

    /// Reads the wanted rows of all blocks, each into its slot of a table. Returns the trouble with each block.
    fn read_blocks(
        &self,
        tier: &dyn BlockTier,
        cache: &CacheState,
        state: &Arc<PrefixState>,
        passes: f64,
        memory: &Memory,
    ) -> (Table, Vec<Option<Trouble>>) {
        let layouts: Vec<(&Layout, &[Want])> =
            self.blocks.iter().map(|of| (&of.block.layout, of.wants.as_slice())).collect();
        let mut reading = Reading::new(&state.shapes, &layouts, self.rows.len(), memory);
        let mut troubles: Vec<Option<Trouble>> = Vec::with_capacity(self.blocks.len());
        tier.read(cache, state, &self.blocks, &mut |file| {
            let Some(WantedBlock { block, wants, .. }) = self.blocks.get(troubles.len()) else { return };
            block.last_hit.set(passes);
            troubles.push(file.and_then(|file| reading.read(file, &block.layout, wants)).err());
        });
        troubles.resize_with(self.blocks.len(), || Some(Trouble::Gone));
        (reading.finish(), troubles)
    }
}
