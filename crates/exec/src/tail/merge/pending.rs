//! The rows that wait for their batch to be full, in order, each chunk with the position from which its rows can be
//! replayed.

use std::collections::VecDeque;

use forebay_data::Chunk;

use crate::tail::position::Position;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct PendingRows {
    pieces: VecDeque<(Chunk, Position)>,
    rows: usize,
}

impl PendingRows {
    /// Adds the next rows; replaying from `start` yields them first.
    pub(super) fn push(&mut self, chunk: Chunk, start: Position) {
        if chunk.num_rows() > 0 {
            self.rows += chunk.num_rows();
            self.pieces.push_back((chunk, start));
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the position of the first row.
    pub(super) fn start(&self) -> Option<&Position> {
        self.pieces.front().map(|(_, start)| start)
    }

    /// Takes the first chunk.
    pub(super) fn pop(&mut self) -> Option<(Chunk, Position)> {
        let piece = self.pieces.pop_front()?;
        self.rows -= piece.0.num_rows();
        Some(piece)
    }

    /// Takes the next `rows` rows, or all if there are fewer.
    pub(super) fn take(&mut self, rows: usize) -> Vec<Chunk> {
        let mut parts = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let Some((chunk, start)) = self.pieces.front_mut() else { break };
            let have = chunk.num_rows();
            if have <= missing {
                missing -= have;
                parts.extend(self.pieces.pop_front().map(|(chunk, _)| chunk));
            } else {
                parts.push(chunk.slice(0, missing));
                *chunk = chunk.slice(missing, have - missing);
                start.rows += missing as u64;
                missing = 0;
            }
        }
        self.rows -= rows - missing;
        parts
    }

    /// Drops all rows.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.rows = 0;
    }
}
