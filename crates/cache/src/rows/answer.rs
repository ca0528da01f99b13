//! The rows of a lookup that were found so far.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::rows::found::Found;
use crate::rows::index::{BlockSlot, Index, Mixed};
use crate::rows::table::Place;

/// See the module's documentation.
pub(crate) struct Answer {
    pub(crate) found: Found,
    /// The table of each segment that rows were found in.
    tables: HashMap<u32, u32, BuildHasherDefault<Mixed>>,
    last: Option<(u32, u32)>,
    pub(crate) passes: f64,
}

impl Answer {
    /// Begins with rows that were found before.
    pub(crate) fn new(found: Found, passes: f64) -> Self {
        Self { found, tables: HashMap::default(), last: None, passes }
    }

    /// Takes a row from a segment, if the segment is still in memory.
    pub(crate) fn take(&mut self, row: u32, slot: BlockSlot, index: &Index) -> bool {
        let known = self.last.filter(|(block, _)| *block == slot.block).map(|(_, table)| table);
        let table = match known.or_else(|| self.tables.get(&slot.block).copied()) {
            Some(table) => table,
            None => {
                let Some(segment) = index.segment(slot.block) else { return false };
                segment.last_hit.set(self.passes);
                let table = self.found.push(segment.table.clone(), false);
                self.tables.insert(slot.block, table);
                table
            }
        };
        self.last = Some((slot.block, table));
        self.found.put(row, Place { table, row: slot.row });
        true
    }
}
