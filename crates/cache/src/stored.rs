//! Rows of one question that are on disk, with peers or in the store: read block by block, each into its place, and checked.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_data::Memory;

use crate::admit::promote;
use crate::disk::{Block, Layout, Reading, Trouble, Want, are_right, bytes_of, ranges};
use crate::index::{Index, Level, Mixed, Number, Spot};
use crate::prefix::Answer;
use crate::shared::{Cell, Shared};
use crate::space::Victim;
use crate::stats::add;
use crate::store::{Held, Pieces};
use crate::table::Place;

/// A block of the store is copied to the local disk when it was asked for the second time.
const BRING_AFTER: u32 = 2;

/// See the module's documentation.
pub(crate) struct Stored {
    level: Level,
    blocks: Vec<(u32, Arc<Block>, Vec<Want>)>,
    /// The place of a block in `blocks`.
    places: HashMap<u32, usize, BuildHasherDefault<Mixed>>,
    last: Option<(u32, usize)>,
    /// The rows, by their slots.
    rows: Vec<(u32, Number)>,
}

impl Stored {
    /// Begins without rows.
    pub(crate) fn new(level: Level) -> Self {
        Self { level, blocks: Vec::new(), places: HashMap::default(), last: None, rows: Vec::new() }
    }

    /// Adds a row that the index says is on this level, if its block is there.
    pub(crate) fn want(&mut self, row: u32, number: Number, spot: Spot, index: &Index) -> bool {
        let Some(block) = index.block(self.level, spot.block) else { return false };
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

    /// Reads the rows into the answer. Returns how many were read, and those that were not: blocks that cannot be read are
    /// forgotten.
    pub(crate) fn read(
        mut self,
        shared: &Shared,
        cell: &Arc<Cell>,
        answer: &mut Answer,
        memory: &Memory,
    ) -> (usize, Vec<(u32, Number)>) {
        self.blocks.iter_mut().for_each(|(_, _, wants)| wants.sort_unstable_by_key(|want| want.row));
        let Some(fetched) = self.fetch(shared, cell) else { return (0, self.rows) };
        let layouts: Vec<(&Layout, &[Want])> =
            self.blocks.iter().map(|(_, block, wants)| (&block.layout, &wants[..])).collect();
        let mut reading = Reading::new(&cell.shapes, &layouts, self.rows.len(), memory);
        let mut troubles: Vec<Option<Trouble>> = Vec::new();
        for ((_, block, wants), fetched) in self.blocks.iter().zip(fetched) {
            block.last_hit.set(answer.passes);
            let read = match fetched {
                Fetched::Pieces(pieces) => pieces.and_then(|pieces| reading.read(&pieces, &block.layout, wants)),
                Fetched::File => open_file(shared, block).and_then(|file| reading.read(&file, &block.layout, wants)),
            };
            troubles.push(read.err());
        }
        let table = reading.finish();
        let mut unread = vec![false; self.rows.len()];
        for ((id, block, wants), trouble) in self.blocks.iter().zip(troubles) {
            let wrong = || (!are_right(&table, &block.layout, wants)).then(|| "a row's sum is wrong".to_owned());
            let Some(trouble) = trouble.or_else(|| wrong().map(Trouble::Broken)) else { continue };
            wants.iter().for_each(|want| unread[want.slot] = true);
            let late = self.level != Level::Disk && matches!(trouble, Trouble::Later(_));
            add(if late { &cell.counters.late } else { &cell.counters.unreadable }, wants.len());
            forget(shared, cell, self.level, (*id, block), &trouble);
        }
        let good: Vec<(Number, u32)> =
            (0..).zip(&self.rows).filter(|(i, _)| !unread[*i as usize]).map(|(i, (_, number))| (*number, i)).collect();
        promote(shared, cell, &table, &good, self.level);
        let id = answer.found.push(table, true);
        good.iter()
            .for_each(|(_, slot)| answer.found.put(self.rows[*slot as usize].0, Place { table: id, row: *slot }));
        let missing = self.rows.iter().zip(unread).filter(|(_, unread)| *unread).map(|(row, _)| *row).collect();
        (good.len(), missing)
    }
}

/// What there is of a block before its rows are put where they go.
enum Fetched {
    /// A file of the local disk.
    File,
    /// What was read elsewhere.
    Pieces(Result<Pieces, Trouble>),
}

impl Stored {
    /// Reads what is wanted of blocks elsewhere, all at once; nothing where computing the rows costs less.
    fn fetch(&self, shared: &Shared, cell: &Arc<Cell>) -> Option<Vec<Fetched>> {
        let Some(tier) = shared.tier(self.level) else {
            return Some(self.blocks.iter().map(|_| Fetched::File).collect());
        };
        let bytes: u64 = self.blocks.iter().map(|(_, block, wants)| bytes_of(&block.layout, wants)).sum();
        let compute = shared.cost(cell).map(|nanos_per_byte| nanos_per_byte * bytes as f64);
        if !tier.is_read() {
            add(&cell.counters.late, self.rows.len());
            return None;
        }
        if !tier.pays(bytes, compute) {
            add(&cell.counters.cheaper, self.rows.len());
            return None;
        }
        let gap = tier.gap();
        let held =
            |(_, block, wants): &'_ (u32, Arc<Block>, Vec<Want>)| (block.clone(), ranges(&block.layout, wants, gap));
        let held: Vec<_> = self.blocks.iter().map(held).collect();
        let held: Vec<Held<'_>> = held
            .iter()
            .map(|(block, ranges)| Held { name: &block.name, len: block.len, ranges: ranges.clone() })
            .collect();
        let fetched = tier.fetch(&held, compute);
        // Peers are near enough.
        if self.level == Level::Store && shared.disk().is_some() {
            for (id, block, _) in &self.blocks {
                let often = block.asked.fetch_add(1, Ordering::Relaxed) + 1 == BRING_AFTER;
                if often && !tier.bring(cell, *id) {
                    block.asked.store(0, Ordering::Relaxed);
                }
            }
        }
        Some(fetched.into_iter().map(Fetched::Pieces).collect())
    }
}

fn open_file(shared: &Shared, block: &Block) -> Result<File, Trouble> {
    let disk = shared.disk().ok_or(Trouble::Gone)?;
    Ok(File::open(disk.folder().path(&block.name))?)
}

/// Forgets a block that cannot be read, unless it may be another time.
fn forget(shared: &Shared, cell: &Arc<Cell>, level: Level, (id, block): (u32, &Block), trouble: &Trouble) {
    if !matches!(trouble, Trouble::Later(_)) {
        shared.forget_block(level, cell, id);
    }
    match (shared.tier(level), shared.disk()) {
        (Some(tier), _) => tier.drop_block(cell, &block.name, block.len, trouble),
        (None, Some(disk)) => disk.drop_block(Victim { prefix: cell.key, block: id }, trouble),
        (None, None) => {}
    }
}
