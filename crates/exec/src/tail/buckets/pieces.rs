//! The rows in buckets: the chunks in which they came, from the first held row on.

use std::collections::VecDeque;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, Ragged};

use crate::tail::position::Position;

/// When only one row of a chunk in this many is still held, the held rows are copied and the chunk is dropped.
/// Otherwise a bucket that rarely fills would keep an epoch in memory.
pub(super) const THIN: usize = 4;

/// A row: the number of its piece, counted from the first of all, and its index in the piece.
pub(super) type Row = (u64, u32);

/// Rows of one chunk.
pub(super) struct Piece {
    start: Position,
    /// The bucket of each row that has been put into one.
    pub(super) buckets: Vec<u32>,
    /// The rows that are still in memory, ascending, and their columns.
    pub(super) rows: Vec<u32>,
    pub(super) chunk: Chunk,
    /// The columns whose rows have a length, by index in the schema.
    ragged: Vec<(usize, Ragged)>,
    /// The number of rows that are held.
    pub(super) held: usize,
}

impl Piece {
    /// Returns the index of a row in the columns.
    fn place(&self, row: u32) -> Result<usize> {
        self.rows.binary_search(&row).map_err(|_| Error::internal("a row of a bucket is gone"))
    }

    /// Says whether too many of its rows have left.
    pub(super) fn is_thin(&self) -> bool {
        self.rows.len() > self.held * THIN
    }

    /// Keeps only these held rows.
    pub(super) fn keep(&mut self, rows: Vec<u32>) -> Result<()> {
        let places = rows.iter().map(|row| self.place(*row).map(|place| place as u32)).collect::<Result<Vec<_>>>()?;
        self.chunk = self.chunk.take(&places)?;
        self.ragged = ragged(&self.chunk)?;
        self.rows = rows;
        Ok(())
    }

    /// Returns the lists of a column.
    pub(super) fn ragged(&self, column: usize) -> Result<&Ragged> {
        let ragged = self.ragged.iter().find(|(i, _)| *i == column);
        ragged.map(|(_, ragged)| ragged).ok_or_else(|| Error::internal("a column of lists is gone"))
    }
}

/// Returns the columns whose rows have a length, by index in the schema.
fn ragged(chunk: &Chunk) -> Result<Vec<(usize, Ragged)>> {
    let fields = chunk.schema().fields().iter().zip(chunk.columns()).enumerate();
    let fields = fields.filter(|(_, (field, _))| Ragged::inner(&field.kind).is_some());
    fields.map(|(i, (field, column))| Ok((i, Ragged::of(&field.kind, column)?))).collect()
}

/// All pieces from the first held row on.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Piece>,
    /// The number of the first piece, and its first held row.
    first: (u64, usize),
}

impl Pieces {
    /// Adds the rows that begin at `start`, and returns the number of the piece.
    pub(super) fn push(&mut self, chunk: Chunk, start: Position) -> Result<u64> {
        let number = self.first.0 + self.pieces.len() as u64;
        let rows = (0..chunk.num_rows() as u32).collect();
        let buckets = Vec::with_capacity(chunk.num_rows());
        let ragged = ragged(&chunk)?;
        self.pieces.push_back(Piece { start, buckets, rows, chunk, ragged, held: 0 });
        Ok(number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter()
    }

    /// Returns a piece, if it has not been dropped.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Piece> {
        self.pieces.get_mut(usize::try_from(number.checked_sub(self.first.0)?).ok()?)
    }

    /// Returns the piece of a held row, and its index there.
    pub(super) fn find(&self, row: Row) -> Result<(&Piece, usize)> {
        let piece = &self.pieces[(row.0 - self.first.0) as usize];
        Ok((piece, piece.place(row.1)?))
    }

    /// Returns the bucket of a row from the first held one on; `None` behind the last row of its piece.
    pub(super) fn bucket(&self, row: Row) -> Option<usize> {
        let piece = self.pieces.get((row.0 - self.first.0) as usize)?;
        piece.buckets.get(row.1 as usize).map(|bucket| *bucket as usize)
    }

    /// Returns the place behind the last row.
    pub(super) fn end(&self) -> Row {
        let number = self.first.0 + self.pieces.len() as u64;
        self.pieces.back().map_or((number, 0), |last| (number - 1, last.buckets.len() as u32))
    }

    /// Returns the bucket of the first row that is held or has left, if a piece has one.
    pub(super) fn first_bucket(&self) -> Option<usize> {
        self.pieces.front()?.buckets.get(self.first.1).map(|bucket| *bucket as usize)
    }

    /// Drops the first row, or the first piece if it has no further row. Returns whether there was a piece.
    pub(super) fn drop_first(&mut self) -> bool {
        match self.pieces.front() {
            Some(piece) if self.first.1 < piece.buckets.len() => self.first.1 += 1,
            Some(_) => {
                self.pieces.pop_front();
                self.first = (self.first.0 + 1, 0);
            }
            None => return false,
        }
        true
    }

    /// Returns the position of the first held row, if there is one.
    pub(super) fn start(&self) -> Option<Position> {
        let first = self.pieces.front()?;
        Some(Position { rows: first.start.rows + self.first.1 as u64, ..first.start.clone() })
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
