//! Rows that a peer is about to compute, and this process has or is at: given as blocks, before they are shown as such.
//!
//! What is in memory or on the disk is given at once. Rows that are being computed are waited for, but only where that ends: who computes
//! waits for nobody, and of two that have not begun yet the one of the lower rank goes first ([`Flight::is_asked`]). So none waits
//! for one that waits for it.
//!
//! Bounds: one answer has [`GIVEN_BYTES_MAX`] of rows, and no more are read or copied for it; it waits no longer than it is asked to, and
//! no longer than [`GIVE_WAIT`]. How long it waited is said with it: that is no part of what a question takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::{Error, Result};
use forebay_data::Memory;

use crate::disk::encode;
use crate::flight::Flight;
use crate::found::Found;
use crate::index::{Level, Number, Numbering, Whereabouts};
use crate::lock::{deadline, read};
use crate::prefix::Answer;
use crate::shared::{Cell, Shared};
use crate::stored::Stored;
use crate::table::{Place, Table};
use crate::{PrefixKey, RowKey};

/// The most bytes of rows in one answer.
pub(crate) const GIVEN_BYTES_MAX: usize = 8 << 20;
/// The longest that rows are waited for.
const GIVE_WAIT: Duration = Duration::from_secs(5);

/// What peers are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Of which prefix.
    pub prefix: PrefixKey,
    /// Which rows.
    pub rows: &'a [RowKey],
    /// Whose, among those that want to compute them: the lower goes first.
    pub rank: u64,
}

/// What is given.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Blocks of the rows.
    pub blocks: Vec<Bytes>,
    /// How long rows were waited for that are computed here.
    pub waited: Duration,
}

/// What there is still room for in an answer.
struct Room {
    left: usize,
    /// Something was left out for which another answer has room.
    is_full: bool,
}

impl Room {
    /// Says whether a row fits, and takes its room.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left;
        self.left -= if fits { bytes } else { 0 };
        self.is_full |= !fits && bytes <= GIVEN_BYTES_MAX;
        fits
    }
}

/// Returns blocks of what there is of the rows, and of which a filter removed.
pub(crate) fn give(shared: &Shared, cell: &Arc<Cell>, asked: &Asked<'_>, limit: Duration) -> Result<Given> {
    let until = deadline(limit.min(GIVE_WAIT));
    let mut room = Room { left: GIVEN_BYTES_MAX, is_full: false };
    let (mut answer, mut without) = (Answer::new(Found::new(&cell.schema), shared.passes(cell.key)), Vec::new());
    let mut on_disk = Stored::new(Level::Disk);
    let mut flying: Vec<(u32, Number, Arc<Flight>)> = Vec::new();
    {
        let (index, mut numbering) = (read(&cell.index), Numbering::default());
        let gives_way = asked.rank < shared.rank();
        for (row, key) in (0..).zip(asked.rows) {
            let Some(number) = numbering.find(&index, key) else { continue };
            let whereabouts = index.whereabouts(number);
            match whereabouts {
                Whereabouts::Without => without.push(row),
                // Who asks does so once more, and gets it then.
                _ if index.bytes_here(whereabouts).is_some_and(|bytes| !room.take(bytes)) => {}
                Whereabouts::Memory(spot) if answer.take(row, spot, &index) => {}
                Whereabouts::Below(Level::Disk, spot) if on_disk.want(row, number, spot, &index) => {}
                _ if room.is_full => {}
                _ => {
                    let flight = index.flying.get(&number).filter(|flight| flight.is_asked(gives_way));
                    flying.extend(flight.map(|flight| (row, number, flight.clone())));
                }
            }
        }
    }
    if !on_disk.is_empty() {
        on_disk.read(shared, cell, &mut answer, &Memory::default());
    }
    let began = Instant::now();
    let mut tables: HashMap<*const Flight, Option<u32>> = HashMap::new();
    for (row, number, flight) in flying {
        if room.is_full {
            break;
        }
        let Some(landed) = flight.wait(until) else { continue };
        let push = || landed.table.clone().map(|table| answer.found.push(table, false));
        let table = *tables.entry(Arc::as_ptr(&flight)).or_insert_with(push);
        match landed.rows.get(&number).zip(table).zip(landed.table.as_ref()) {
            Some(((&at, table), rows)) if room.take(rows.row_bytes(at as usize)) => {
                answer.found.put(row, Place { table, row: at });
            }
            Some(_) => {}
            None => without.extend(landed.without.contains(&number).then_some(row)),
        }
    }
    let waited = began.elapsed();
    Ok(Given { blocks: blocks(shared, cell, asked.rows, answer.found, without)?, waited })
}

/// Makes blocks of what was found.
fn blocks(
    shared: &Shared,
    cell: &Cell,
    asked: &[RowKey],
    mut found: Found,
    mut without: Vec<u32>,
) -> Result<Vec<Bytes>> {
    let keys = |rows: &[u32]| rows.iter().map(|&row| asked[row as usize]).collect::<Vec<_>>();
    let mut blocks = Vec::new();
    let rows = found.rows();
    if !rows.is_empty() {
        let table = Table::of(&cell.schema, &found.columns(&Memory::default())?, rows.len())?;
        blocks.push(encode(&shared.head(cell, false), &table, &keys(&rows))?.into());
    }
    if !without.is_empty() {
        without.sort_unstable();
        let table = Table::new(Vec::new(), without.len());
        blocks.push(encode(&shared.head(cell, true), &table, &keys(&without))?.into());
    }
    Ok(blocks)
}

impl Shared {
    /// Answers a peer.
    ///
    /// # Errors
    /// NotFound where nothing is known of the prefix; or what making a block gives.
    pub(crate) fn give(&self, asked: &Asked<'_>, limit: Duration) -> Result<Given> {
        match self.known_cell(asked.prefix) {
            Some(cell) => give(self, &cell, asked, limit),
            None => Err(Error::new(forebay_core::ErrorKind::NotFound, "nothing is kept of that")),
        }
    }
}
