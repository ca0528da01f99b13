//! The batches and samples that a stream delivers, and the positions at which each begins and ends.

use forebay_core::{Epoch, Result};
use forebay_data::Chunk;

use crate::tail::position::Position;

/// The result of `next()`: one batch, or a run of single samples.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The rows.
    pub chunk: Chunk,
    /// Whether the rows are one batch; otherwise each row is a sample.
    pub batched: bool,
    /// The epoch.
    pub epoch: Epoch,
    is_counted: bool,
    start: Position,
    end: Position,
}

impl Delivery {
    pub(crate) fn new(chunk: Chunk, batched: bool, start: Position, end: Position) -> Self {
        Self { chunk, batched, epoch: Epoch(start.epoch), is_counted: false, start, end }
    }

    /// Returns the position after its first `rows` rows.
    pub fn position_after(&self, rows: usize) -> Position {
        self.span().after(rows as u64)
    }

    /// Returns the positions at which it begins and ends.
    pub fn span(&self) -> Span {
        let rows = self.chunk.num_rows() as u64;
        Span { rows, is_counted: self.is_counted, start: self.start.clone(), end: self.end.clone() }
    }

    /// Returns its number of steps: batches, or samples.
    pub fn steps(&self) -> u64 {
        if self.batched { 1 } else { self.chunk.num_rows() as u64 }
    }

    /// Splits off its first samples as a separate delivery; it must not be a batch.
    pub fn split_off(&mut self, rows: usize) -> Self {
        let left = self.chunk.num_rows() - rows;
        let first = Self { chunk: self.chunk.slice(0, rows), end: self.position_after(rows), ..self.clone() };
        self.chunk = self.chunk.slice(rows, left);
        self.start.rows += rows as u64;
        first
    }

    /// Marks it as step `step` of its epoch, after which `given` more steps were delivered. Positions after it are one
    /// step behind.
    pub fn count(&mut self, step: u64, given: u64) {
        self.is_counted = true;
        (self.start.step, self.start.given) = (step, given);
        let behind = self.steps() - 1;
        self.end = self.start.clone();
        self.end.rows += behind;
        (self.end.step, self.end.given) = (step + behind, given + 1);
    }

    /// Returns the same rows in new memory.
    ///
    /// # Errors
    /// Internal when Arrow returns an error.
    pub fn copied(&self) -> Result<Self> {
        let all: Vec<u32> = (0..self.chunk.num_rows() as u32).collect();
        Ok(Self { chunk: self.chunk.take(&all)?, ..self.clone() })
    }
}

/// The positions at which a delivery begins and ends.
#[derive(Debug, Clone)]
pub struct Span {
    rows: u64,
    is_counted: bool,
    start: Position,
    end: Position,
}

impl Span {
    /// Returns an empty span at a position.
    pub fn at(position: Position) -> Self {
        Self { rows: 0, is_counted: false, start: position.clone(), end: position }
    }

    /// Sets its end.
    pub fn end_at(&mut self, end: Position) {
        self.end = end;
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> u64 {
        self.start.epoch
    }

    /// Returns its end.
    pub fn end(&self) -> &Position {
        &self.end
    }

    /// Returns the position after its first `rows` rows.
    pub fn after(&self, rows: u64) -> Position {
        let start = self.start.clone();
        match rows {
            _ if rows >= self.rows => self.end.clone(),
            0 => start,
            _ if self.is_counted => {
                let behind = rows - 1;
                Position { rows: start.rows + behind, step: start.step + behind, given: 1, ..start }
            }
            _ => Position { rows: start.rows + rows, ..start },
        }
    }
}
