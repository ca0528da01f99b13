//! Rows of one question that are on disk: read block by block, each into its place, and checked.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use forebay_data::Memory;

use crate::admit::promote;
use crate::disk::{Block, Layout, Reading, Trouble, Want, are_right};
use crate::index::{Index, Mixed, Number, Spot};
use crate::prefix::Answer;
use crate::shared::{Cell, Shared};
use crate::space::Victim;
use crate::table::Place;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Stored {
    blocks: Vec<(u32, Arc<Block>, Vec<Want>)>,
    /// The place of a block in `blocks`.
    places: HashMap<u32, usize, BuildHasherDefault<Mixed>>,
    last: Option<(u32, usize)>,
    /// The rows, by their slots.
    rows: Vec<(u32, Number)>,
}

impl Stored {
    /// Adds a row that the index says is on disk, if its block is there.
    pub(crate) fn want(&mut self, row: u32, number: Number, spot: Spot, index: &Index) -> bool {
        let Some(block) = index.block(spot.block) else { return false };
        let place = match self.last {
            Some((id, place)) if id == spot.block => place,
            _ => *self.places.entry(spot.block).or_insert_with(|| {
                self.blocks.push((spot.block, block.clone(), Vec::new()));
                self.blocks.len() - 1
            }),
        };
        self.last = Some((spot.block, place));
        let want = Want { slot: self.rows.len(), row: spot.row as usize, key: index.key_of(number) };
        self.blocks[place].2.push(want);
        self.rows.push((row, number));
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reads the rows into the answer. Returns how many were read, and those that were not: their blocks are forgotten.
    pub(crate) fn read(
        mut self,
        shared: &Shared,
        cell: &Arc<Cell>,
        answer: &mut Answer,
        memory: &Memory,
    ) -> (usize, Vec<(u32, Number)>) {
        self.blocks.iter_mut().for_each(|(_, _, wants)| wants.sort_unstable_by_key(|want| want.row));
        let layouts: Vec<(&Layout, &[Want])> =
            self.blocks.iter().map(|(_, block, wants)| (&block.layout, &wants[..])).collect();
        let mut reading = Reading::new(&cell.shapes, &layouts, self.rows.len(), memory);
        let mut troubles: Vec<Option<Trouble>> = Vec::new();
        for (_, block, wants) in &self.blocks {
            block.last_hit.set(answer.passes);
            let read = File::open(&block.path).map_err(Trouble::from);
            troubles.push(read.and_then(|file| reading.read(&file, &block.layout, wants)).err());
        }
        let table = reading.finish();
        let mut unread = vec![false; self.rows.len()];
        for ((id, block, wants), trouble) in self.blocks.iter().zip(troubles) {
            let wrong = || (!are_right(&table, &block.layout, wants)).then(|| "a row's sum is wrong".to_owned());
            let Some(trouble) = trouble.or_else(|| wrong().map(Trouble::Broken)) else { continue };
            wants.iter().for_each(|want| unread[want.slot] = true);
            forget(shared, cell, *id, &trouble);
        }
        let good: Vec<(Number, u32)> =
            (0..).zip(&self.rows).filter(|(i, _)| !unread[*i as usize]).map(|(i, (_, number))| (*number, i)).collect();
        promote(shared, cell, &table, &good);
        let id = answer.found.push(table, true);
        good.iter()
            .for_each(|(_, slot)| answer.found.put(self.rows[*slot as usize].0, Place { table: id, row: *slot }));
        let missing = self.rows.iter().zip(unread).filter(|(_, unread)| *unread).map(|(row, _)| *row).collect();
        (good.len(), missing)
    }
}

/// Forgets a block that cannot be read, unless it may be another time.
fn forget(shared: &Shared, cell: &Cell, id: u32, trouble: &Trouble) {
    if !matches!(trouble, Trouble::Later(_)) {
        shared.forget_block(cell, id);
    }
    if let Some(tier) = shared.disk() {
        tier.drop_block(Victim { prefix: cell.key, block: id }, trouble);
    }
}
