//! The facts that the plan has about the rows of a morsel besides their source rows: which of the rows that ops make of
//! a source row they are ([`Stages::fan_out`]), and their numbers in the epoch ([`Stages::numbered`]).
//!
//! A morsel reads each source row once, and ops make all rows of it. Then this module takes the rows of the morsel, in
//! its order. Invariant: where the plan has such facts, no row is skipped, so all of these rows exist.

use std::collections::HashMap;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, RowId};
use forebay_io::Place;
use forebay_plan::{Placed, Stages, Step};

use crate::ops::enumerate_op::numbered;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct MorselRows {
    /// The place of the last op that makes rows, and the number of rows that the ops make of each source row.
    fan_out: Option<(usize, u64)>,
    /// `None` if rows are not numbered. Otherwise whether the ops number source rows (true) or the made rows.
    numbered: Option<bool>,
    /// For each row, the index of its source row among the places, and its number among the rows made of that source
    /// row.
    rows: Vec<(usize, u64)>,
    /// The index of each source row among the places.
    known: HashMap<(u64, u64, u64), usize>,
    /// The ids and the numbers of rows, if rows are numbered.
    numbers: Vec<(RowId, u64)>,
}

impl MorselRows {
    /// Starts without rows; `None` if the plan has no such facts.
    pub(crate) fn of(stages: &Stages) -> Option<Self> {
        let (fan_out, numbered) = (stages.fan_out(), stages.numbered().map(|(_, is_before)| is_before));
        (fan_out.is_some() || numbered.is_some()).then(|| Self { fan_out, numbered, ..Self::default() })
    }

    /// Adds a row, and adds its source row to `places` unless `places` has it. `id` returns the id of a source row.
    pub(crate) fn add(&mut self, placed: Placed, places: &mut Vec<Place>, id: impl Fn(Place) -> RowId) {
        let Placed { row, epoch, part, number } = placed;
        let place = Place { row, epoch };
        // A source row that is numbered has another number each time that it occurs, so it is read each time.
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

    /// Takes the rows of the morsel after the op at `place`, if that is the last op that makes rows.
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
