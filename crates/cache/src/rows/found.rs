//! The rows of one lookup, from any place. Their columns are joined when all rows are there, so that each row is copied
//! once.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::Result;
use forebay_data::{Memory, Schema};

use crate::rows::table::{Place, Shape, Table, shapes};

/// Rows of one request, by their place in it. See [`Prefix::look`](crate::Prefix::look).
#[derive(Debug, Clone)]
pub struct Found {
    schema: Arc<Schema>,
    shapes: Arc<[Shape]>,
    tables: Vec<FoundTable>,
    rows: Vec<(u32, Place)>,
    filtered_out: Vec<u32>,
    sorted: bool,
}

#[derive(Debug, Clone)]
struct FoundTable {
    table: Table,
    /// Has no other owner, so that it may be returned without a copy.
    own: bool,
}

impl Found {
    /// Begins with no rows.
    pub fn new(schema: &Arc<Schema>) -> Self {
        let shapes = schema.fields().iter().flat_map(shapes).collect();
        let schema = schema.clone();
        Self { schema, shapes, tables: Vec::new(), rows: Vec::new(), filtered_out: Vec::new(), sorted: true }
    }

    /// Adds rows that the caller holds, for example because it has just computed them.
    ///
    /// # Errors
    /// Internal when the columns do not match the schema or the number of rows.
    pub fn add(&mut self, rows: &[u32], columns: &[ArrayRef]) -> Result<()> {
        let table = Table::of(&self.schema, columns, rows.len())?;
        let id = self.push(table, true);
        rows.iter().enumerate().for_each(|(i, &row)| self.put(row, Place { table: id, row: i as u32 }));
        Ok(())
    }

    /// Adds rows that a filter removed.
    pub fn add_filtered_out(&mut self, rows: &[u32]) {
        self.filtered_out.extend_from_slice(rows);
        self.sorted = false;
    }

    /// Adds the rows of another result of the same request.
    pub fn merge(&mut self, other: Found) {
        let first = self.tables.len() as u32;
        self.tables.extend(other.tables);
        let moved = |(row, place): (u32, Place)| (row, Place { table: place.table + first, ..place });
        self.rows.extend(other.rows.into_iter().map(moved));
        self.filtered_out.extend(other.filtered_out);
        self.sorted = false;
    }

    /// Returns the rows that were found, ascending.
    pub fn rows(&mut self) -> Vec<u32> {
        self.sort();
        self.rows.iter().map(|(row, _)| *row).collect()
    }

    /// Returns the rows that a filter removed, ascending.
    pub fn filtered_out(&mut self) -> &[u32] {
        self.sort();
        &self.filtered_out
    }

    /// Returns the columns of [`Found::rows`], in that order. Kept rows are copied into `memory`, because the next
    /// owner of the columns may write to them.
    ///
    /// # Errors
    /// Exhausted when a column would pass 2^31 numbers; Data when rows do not match the schema.
    pub fn columns(&mut self, memory: &Memory) -> Result<Vec<ArrayRef>> {
        self.sort();
        let places: Vec<Place> = self.rows.iter().map(|(_, place)| *place).collect();
        if let [FoundTable { table, own: true }] = &*self.tables
            && table.rows() == places.len()
            && places.iter().enumerate().all(|(i, place)| place.row as usize == i)
        {
            return table.columns(&self.schema);
        }
        let tables: Vec<&Table> = self.tables.iter().map(|held| &held.table).collect();
        Table::gather(&self.shapes, &tables, &places, memory).columns(&self.schema)
    }

    /// Adds a table to take rows from; returns its number.
    pub(crate) fn push(&mut self, table: Table, own: bool) -> u32 {
        self.tables.push(FoundTable { table, own });
        self.tables.len() as u32 - 1
    }

    /// Adds a row.
    pub(crate) fn put(&mut self, row: u32, place: Place) {
        self.sorted &= self.rows.last().is_none_or(|(last, _)| *last < row);
        self.rows.push((row, place));
    }

    fn sort(&mut self) {
        if !std::mem::replace(&mut self.sorted, true) {
            self.rows.sort_unstable_by_key(|(row, _)| *row);
            self.filtered_out.sort_unstable();
        }
    }
}
