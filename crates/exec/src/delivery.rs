//! What a stream gives, and the places in it that a saved state can name.

use forebay_core::{Epoch, Result};
use forebay_data::Chunk;
use serde::{Deserialize, Serialize};

use crate::budget::Tally;
use crate::pack::Unpacked;
use crate::passed::Passed;

/// The first row not yet delivered. The default is the start of the first epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The epoch.
    pub epoch: u64,
    /// The split's ordinal in the consumer's epoch.
    pub split: u64,
    /// The chunk in its split.
    pub chunk: u64,
    /// Rows of that chunk, after the tail's ops, that have been delivered; of the first rows that come out of it and what
    /// follows it, where rows are packed.
    pub rows: u64,
    /// The split and the chunk that `rows` are of, where it is a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<(u64, u64)>,
    /// What of later splits and chunks has been delivered.
    #[serde(default, skip_serializing_if = "Passed::is_empty")]
    pub passed: Passed,
    /// The phase of the epoch (`plan::Deal`): not 0 where it was dealt anew in its middle.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub phase: u64,
    /// Where in that chunk packing begins; `None` is its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked: Option<Unpacked>,
    /// For each bucket, how many of its rows from there on were delivered; empty is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bucketed: Vec<u64>,
    /// Rows that each counting op of the tail had seen before that chunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<u64>,
    /// What the epoch had come to before that chunk, where samples may be left out.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub tally: Tally,
    /// Steps of the epoch that come before the first row here: batches, or samples. Counted where consumers end epochs together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u64,
    /// Steps from here on that were given out. Such a position is one step behind, so that whoever goes on from it finds out again
    /// where the epoch ends, and has its last batch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What `next()` returns: one batch, or a run of single samples.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The rows.
    pub chunk: Chunk,
    /// Whether they are one batch; else each row is a sample of its own.
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

    /// Returns the position once `rows` of its rows have been used.
    pub fn position_after(&self, rows: usize) -> Position {
        self.span().after(rows as u64)
    }

    /// Returns where it begins and ends.
    pub fn span(&self) -> Span {
        let rows = self.chunk.num_rows() as u64;
        Span { rows, is_counted: self.is_counted, start: self.start.clone(), end: self.end.clone() }
    }

    /// Returns how many steps it is.
    pub fn steps(&self) -> u64 {
        if self.batched { 1 } else { self.chunk.num_rows() as u64 }
    }

    /// Cuts off its first samples, as a delivery of its own; it must not be a batch.
    pub fn split_off(&mut self, rows: usize) -> Self {
        let left = self.chunk.num_rows() - rows;
        let first = Self { chunk: self.chunk.slice(0, rows), end: self.position_after(rows), ..self.clone() };
        self.chunk = self.chunk.slice(rows, left);
        self.start.rows += rows as u64;
        first
    }

    /// Writes its place down as step `step` of its epoch, of which `given` more than this one were given out from here on: positions
    /// after it are one step behind.
    pub fn count(&mut self, step: u64, given: u64) {
        self.is_counted = true;
        (self.start.step, self.start.given) = (step, given);
        let behind = self.steps() - 1;
        self.end = self.start.clone();
        self.end.rows += behind;
        (self.end.step, self.end.given) = (step + behind, given + 1);
    }

    /// Returns the same rows in memory of their own.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub fn copied(&self) -> Result<Self> {
        let all: Vec<u32> = (0..self.chunk.num_rows() as u32).collect();
        Ok(Self { chunk: self.chunk.take(&all)?, ..self.clone() })
    }
}

/// Where a delivery begins and ends.
#[derive(Debug, Clone)]
pub struct Span {
    rows: u64,
    is_counted: bool,
    start: Position,
    end: Position,
}

impl Span {
    /// Nothing, at a position.
    pub fn at(position: Position) -> Self {
        Self { rows: 0, is_counted: false, start: position.clone(), end: position }
    }

    /// It is known to end there.
    pub fn end_at(&mut self, end: Position) {
        self.end = end;
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> u64 {
        self.start.epoch
    }

    /// Returns where it ends.
    pub fn end(&self) -> &Position {
        &self.end
    }

    /// Returns the position once `rows` of its rows have been used.
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
