//! The documents that wait to be packed, in order, and the first token not yet packed.
//!
//! A document is a row of ids and, where there is one, the separator that ends it: its length counts both.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_data::{Int32Lists, Ragged, RowId};

use crate::tail::position::{Position, Unpacked};

/// The documents of one chunk.
struct ChunkDocuments {
    lists: Int32Lists,
    /// Columns whose lists have the lengths of `lists`.
    along: Vec<Ragged>,
    ids: Arc<[RowId]>,
    at: Position,
}

/// A run of one document's tokens. Valid until [`Documents::forget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    held: usize,
    row: usize,
    pub(super) from: usize,
    to: usize,
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        self.to - self.from
    }

    /// A whole document of `len` tokens.
    #[cfg(test)]
    pub(super) fn whole(row: usize, len: usize) -> Self {
        Self { held: 0, row, from: 0, to: len }
    }

    #[cfg(test)]
    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// Cuts a document into pieces of at most `length` tokens, all but the last of exactly that many.
    pub(super) fn cut(self, length: usize) -> impl Iterator<Item = Piece> {
        let starts = (self.from..self.to).step_by(length);
        starts.map(move |from| Piece { from, to: self.to.min(from + length), ..self })
    }
}

pub(super) struct Documents {
    held: VecDeque<ChunkDocuments>,
    /// The first token not yet packed: its chunk in `held`, and its place there.
    first: (usize, Unpacked),
    /// Rows and tokens from there on.
    rows: usize,
    tokens: usize,
    /// Tokens of a separator: 0 or 1.
    separator: usize,
}

impl Documents {
    pub(super) fn new(separator: usize) -> Self {
        Self { held: VecDeque::new(), first: (0, Unpacked::default()), rows: 0, tokens: 0, separator }
    }

    /// Adds rows at the end; the tokens before `from` were already packed.
    pub(super) fn push(
        &mut self,
        lists: Int32Lists,
        along: Vec<Ragged>,
        ids: Arc<[RowId]>,
        at: Position,
        from: Unpacked,
    ) {
        let separator = self.separator;
        let tokens: usize = (from.row as usize..lists.rows()).map(|row| lists.get(row).len() + separator).sum();
        if self.held.is_empty() {
            self.first = (0, from);
        }
        self.rows += lists.rows().saturating_sub(from.row as usize);
        self.tokens += tokens.saturating_sub(from.token as usize);
        self.held.push_back(ChunkDocuments { lists, along, ids, at });
        self.settle();
    }

    pub(super) fn num_tokens(&self) -> usize {
        self.tokens
    }

    /// Returns the first token not yet packed, if there is one.
    pub(super) fn start(&self) -> Option<(&Position, Unpacked)> {
        let (held, at) = self.first;
        self.held.get(held).map(|h| (&h.at, at))
    }

    pub(super) fn clear(&mut self) {
        (self.first, self.rows, self.tokens) = ((0, Unpacked::default()), 0, 0);
        self.held.clear();
    }

    /// Frees the chunks that are packed completely.
    pub(super) fn forget(&mut self) {
        self.held.drain(..self.first.0);
        self.first.0 = 0;
    }

    /// Takes up to `room` tokens of the first document.
    pub(super) fn next(&mut self, room: usize) -> Option<Piece> {
        loop {
            let rest = self.rest()?;
            let piece = Piece { to: rest.to.min(rest.from + room), ..rest };
            self.tokens -= piece.len();
            self.first.1.token = piece.to as u64;
            if piece.to == rest.to {
                self.advance();
            }
            // A document without tokens yields no piece.
            if piece.len() > 0 {
                return Some(piece);
            }
        }
    }

    /// Takes a window: the next `rows` documents, or fewer that have `tokens` tokens; with `last`, all remaining ones.
    pub(super) fn window(&mut self, rows: usize, tokens: usize, last: bool) -> Option<Vec<Piece>> {
        let full = self.rows >= rows || self.tokens >= tokens;
        if self.rows == 0 || !(full || last) {
            return None;
        }
        let mut window = Vec::with_capacity(self.rows.min(rows));
        let mut seen = 0;
        while window.len() < rows && seen < tokens {
            let Some(document) = self.rest() else { break };
            seen += document.len();
            window.push(document);
            self.advance();
        }
        self.tokens -= seen;
        Some(window)
    }

    /// Returns the token ids of a piece, whether its separator follows them, and the id of its document.
    pub(super) fn read(&self, piece: Piece) -> (&[i32], bool, RowId) {
        let held = &self.held[piece.held];
        let ids = held.lists.get(piece.row);
        (&ids[piece.from.min(ids.len())..piece.to.min(ids.len())], piece.to > ids.len(), held.ids[piece.row])
    }

    /// Returns the bytes of a column's numbers beside the ids of a piece; `size` is the size of a number.
    pub(super) fn read_along(&self, piece: Piece, column: usize, size: usize) -> &[u8] {
        let held = &self.held[piece.held];
        let (bytes, ids) = (held.along[column].get(piece.row), held.lists.get(piece.row).len());
        &bytes[piece.from.min(ids) * size..piece.to.min(ids) * size]
    }

    /// Returns the rest of the first document.
    fn rest(&self) -> Option<Piece> {
        let (held, Unpacked { row, token }) = self.first;
        let row = row as usize;
        let to = self.held.get(held)?.lists.get(row).len() + self.separator;
        Some(Piece { held, row, from: token as usize, to })
    }

    fn advance(&mut self) {
        self.rows -= 1;
        self.first.1 = Unpacked { row: self.first.1.row + 1, token: 0 };
        self.settle();
    }

    /// Moves `first` to the next chunk where it is at the end of one.
    fn settle(&mut self) {
        while self.held.get(self.first.0).is_some_and(|h| self.first.1.row >= h.lists.rows() as u64) {
            self.first = (self.first.0 + 1, Unpacked::default());
        }
    }
}
