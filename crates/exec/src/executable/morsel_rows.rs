//! The rows of a morsel, as far as the plan knows more of them than their source rows: which they are among the rows that
//! ops make of source rows ([`Stages::fan_out`]), and their numbers in the epoch ([`Stages::numbered`]).
//!
//! Each source row is read once for a morsel, and all rows are made of it; then the rows of the morsel are taken, in its
//! order. Invariant: where such rows are in the plan, no row is skipped, so all of them exist.

use std::collections::HashMap;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, RowId};
use forebay_io::Place;
use forebay_plan::{Placed, Stages, Step};

use crate::ops::enumerate_op::numbered;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct MorselRows {
    /// The last op that makes rows, by its place, and the number of rows that are made of each source row.
    fan_out: Option<(usize, u64)>,
    /// Whether rows are numbered, and whether before they are made.
    numbered: Option<bool>,
    /// For each row, its source row among the places, and its number among the rows made of that.
    rows: Vec<(usize, u64)>,
    /// The index of each source row among the places.
    known: HashMap<(u64, u64, u64), usize>,
    /// The numbers of rows, where they are numbered, with the ids of these rows.
    numbers: Vec<(RowId, u64)>,
}

impl MorselRows {
    /// Starts without rows; `None` if the plan knows no more of rows than their source rows.
    pub(crate) fn of(stages: &Stages) -> Option<Self> {
        let (fan_out, numbered) = (stages.fan_out(), stages.numbered().map(|(_, is_before)| is_before));
        (fan_out.is_some() || numbered.is_some()).then(|| Self { fan_out, numbered, ..Self::default() })
    }

    /// Adds a row; its source row goes to `places`, where that has it not yet. `id` returns its id.
    pub(crate) fn add(&mut self, placed: Placed, places: &mut Vec<Place>, id: impl Fn(Place) -> RowId) {
        let Placed { row, epoch, part, number } = placed;
        let place = Place { row, epoch };
        // A row that comes twice has two numbers.
        let own_number = if self.numbered == Some(true) { number } else { 0 };
        let found = self.fan_out.and_then(|_| self.known.get(&(row, epoch.0, own_number)).copied());
        let at = found.unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        });
        if self.numbered == Some(false) || (self.numbered == Some(true) && found.is_none()) {
            self.numbers.push((id(place), number));
        }
        if self.fan_out.is_some() {
            self.known.insert((row, epoch.0, own_number), at);
            self.rows.push((at, part));
        }
    }

    /// Takes the rows of the morsel behind the op at `place`, if that is the last one that makes rows.
    ///
    /// # Errors
    /// Internal when rows are missing.
    pub(crate) fn take(&self, place: usize, chunk: Chunk) -> Result<Chunk> {
        let Some((_, made)) = self.fan_out.filter(|(after, _)| *after == place) else { return Ok(chunk) };
        if chunk.num_rows() as u64 != made.saturating_mul(self.known.len() as u64) {
            let (rows, of) = (chunk.num_rows(), self.known.len());
            return Err(Error::internal(format!("{rows} rows made of {of}, {made} of each")));
        }
        let places: Vec<u32> = self.rows.iter().map(|(at, part)| (*at as u64 * made + part) as u32).collect();
        let is_in_order = places.len() == chunk.num_rows() && places.iter().zip(0..).all(|(place, at)| *place == at);
        if is_in_order { Ok(chunk) } else { chunk.take(&places) }
    }

    /// Adds the numbers of rows. Rows may be missing, because they failed before.
    ///
    /// # Errors
    /// Internal for rows that are not of the morsel.
    pub(crate) fn number(&self, chunk: &Chunk, step: &Step) -> Result<Chunk> {
        let mut numbers = self.numbers.iter();
        let mut next = |id: &RowId| numbers.find(|(own, _)| own == id).map(|(_, number)| *number);
        let found: Option<Vec<u64>> = chunk.ids().iter().map(&mut next).collect();
        numbered(chunk, step, &found.ok_or_else(|| Error::internal("a row without a number"))?)
    }
}
