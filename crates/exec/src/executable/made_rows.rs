//! The rows of a morsel among those that ops make of source rows, where each makes a known number
//! ([`Stages::fan_out`](forebay_plan::Stages::fan_out)).
//!
//! Each source row is read once for a morsel, and all rows are made of it; then the rows of the morsel are taken, in its
//! order. Invariant: where such rows are in the plan, no row is skipped, so all of them exist.

use std::collections::HashMap;

use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_io::Place;

/// The rows that a morsel wants.
#[derive(Debug, Default)]
pub(crate) struct WantedRows {
    /// The last op that makes rows, by its place.
    after: usize,
    /// The number of rows that are made of each source row.
    made: u64,
    /// For each wanted row, its source row among the places, and its number among the rows made of that.
    rows: Vec<(usize, u64)>,
    /// The index of each source row among the places, by its number and its epoch.
    known: HashMap<(u64, u64), usize>,
}

impl WantedRows {
    /// Starts without rows.
    pub(crate) fn new((after, made): (usize, u64)) -> Self {
        Self { after, made, ..Self::default() }
    }

    /// Adds a row; its source row goes to `places`, where that has it not yet.
    pub(crate) fn add(&mut self, place: Place, part: u64, places: &mut Vec<Place>) {
        let at = *self.known.entry((place.row, place.epoch.0)).or_insert_with(|| {
            places.push(place);
            places.len() - 1
        });
        self.rows.push((at, part));
    }

    /// Returns whether rows are taken behind the op at this place.
    pub(crate) fn is_behind(&self, place: usize) -> bool {
        self.after == place
    }

    /// Takes the wanted rows from all rows that were made, in order.
    ///
    /// # Errors
    /// Internal when rows are missing.
    pub(crate) fn take(&self, chunk: &Chunk) -> Result<Chunk> {
        if chunk.num_rows() as u64 != self.made.saturating_mul(self.known.len() as u64) {
            let (rows, of) = (chunk.num_rows(), self.known.len());
            return Err(Error::internal(format!("{rows} rows made of {of}, {} of each", self.made)));
        }
        let places: Vec<u32> = self.rows.iter().map(|(at, part)| (*at as u64 * self.made + part) as u32).collect();
        let is_in_order = places.len() == chunk.num_rows() && places.iter().zip(0..).all(|(place, at)| *place == at);
        if is_in_order { Ok(chunk.clone()) } else { chunk.take(&places) }
    }
}
