//! Rows that a peer is about to compute, and this process has or is at: given as blocks, before they are shown as such.
//!
//! What is in memory or on the disk is given at once. Rows that are being computed are waited for, but only where that ends: who computes
//! waits for nobody, and of two that have not begun yet the one of the lower rank goes first ([`Flight::is_asked`]). So none waits
//! for one that waits for it.
//!
//! Bounds: one answer has [`GIVEN_BYTES_MAX`] of rows, and waits no longer than it is asked to, and no longer than [`GIVE_WAIT`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

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

/// Returns blocks of what there is of the rows, and of which a filter removed.
pub(crate) fn give(shared: &Shared, cell: &Arc<Cell>, asked: &Asked<'_>, limit: Duration) -> Result<Vec<Bytes>> {
    let until = deadline(limit.min(GIVE_WAIT));
    let (mut answer, mut without) = (Answer::new(Found::new(&cell.schema), shared.passes(cell.key)), Vec::new());
    let mut on_disk = Stored::new(Level::Disk);
    let mut flying: Vec<(u32, Number, Arc<Flight>)> = Vec::new();
    {
        let (index, mut numbering) = (read(&cell.index), Numbering::default());
        let gives_way = asked.rank < shared.rank();
        for (row, key) in (0..).zip(asked.rows) {
            let Some(number) = numbering.find(&index, key) else { continue };
            match index.whereabouts(number) {
                Whereabouts::Memory(spot) if answer.take(row, spot, &index) => {}
                Whereabouts::Without => without.push(row),
                Whereabouts::Below(Level::Disk, spot) if on_disk.want(row, number, spot, &index) => {}
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
    let mut tables: HashMap<*const Flight, Option<u32>> = HashMap::new();
    for (row, number, flight) in flying {
        let Some(landed) = flight.wait(until) else { continue };
        let push = || landed.table.clone().map(|table| answer.found.push(table, false));
        let table = *tables.entry(Arc::as_ptr(&flight)).or_insert_with(push);
        match landed.rows.get(&number).zip(table) {
            Some((&at, table)) => answer.found.put(row, Place { table, row: at }),
            None => without.extend(landed.without.contains(&number).then_some(row)),
        }
    }
    let keys = |rows: &[u32]| rows.iter().map(|&row| asked.rows[row as usize]).collect::<Vec<_>>();
    let mut given = Vec::new();
    let rows = answer.found.rows();
    if !rows.is_empty() {
        let columns = answer.found.columns(&Memory::default())?;
        let table = first(cell, Table::of(&cell.schema, &columns, rows.len())?);
        if table.rows() > 0 {
            given.push(encode(&shared.head(cell, false), &table, &keys(&rows[..table.rows()]))?.into());
        }
    }
    if !without.is_empty() {
        let table = Table::new(Vec::new(), without.len());
        given.push(encode(&shared.head(cell, true), &table, &keys(&without))?.into());
    }
    Ok(given)
}

/// Returns as many of the first rows as one answer has.
fn first(cell: &Cell, table: Table) -> Table {
    let mut bytes = 0;
    let fits = |row: &usize| {
        bytes += table.row_bytes(*row);
        bytes <= GIVEN_BYTES_MAX
    };
    let rows = (0..table.rows()).take_while(fits).count();
    if rows == table.rows() {
        return table;
    }
    let places: Vec<Place> = (0..rows as u32).map(|row| Place { table: 0, row }).collect();
    Table::gather(&cell.shapes, &[&table], &places, &Memory::default())
}

impl Shared {
    /// Answers a peer.
    ///
    /// # Errors
    /// NotFound where nothing is known of the prefix; or what making a block gives.
    pub(crate) fn give(&self, asked: &Asked<'_>, limit: Duration) -> Result<Vec<Bytes>> {
        match self.known_cell(asked.prefix) {
            Some(cell) => give(self, &cell, asked, limit),
            None => Err(Error::new(forebay_core::ErrorKind::NotFound, "nothing is kept of that")),
        }
    }
}
