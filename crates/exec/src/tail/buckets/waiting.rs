//! The keys of rows that wait for a batch to be full, for the bound of `batch_by_key`.
//!
//! Invariant: the number of keys is a function of the order of rows alone. It counts the keys of all rows from the row
//! that waits longest on, also of rows that are in full batches: a saved state names these keys.

use std::collections::BTreeMap;

use crate::tail::buckets::pieces::{Pieces, Row};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct WaitingKeys {
    /// The first row of each batch that is not full, and its bucket.
    first: BTreeMap<Row, usize>,
    /// The row that waits longest.
    start: Row,
    /// For each bucket, its number of rows from there on.
    rows: Vec<u64>,
    /// The number of buckets that have such rows.
    keys: usize,
}

impl WaitingKeys {
    /// Returns the number of keys.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Says whether a bucket has a row from the row that waits longest on.
    pub(super) fn has(&self, bucket: usize) -> bool {
        self.rows.get(bucket).is_some_and(|rows| *rows > 0)
    }

    /// Returns the bucket of the row that waits longest.
    pub(super) fn oldest(&self) -> Option<usize> {
        self.first.first_key_value().map(|(_, bucket)| *bucket)
    }

    /// Counts a row. `begins`: it is the first one of its batch; `waits`: it is not one that has left before.
    pub(super) fn count(&mut self, row: Row, bucket: usize, waits: bool, begins: bool) {
        if self.first.is_empty() {
            self.start = row;
        }
        if begins {
            self.first.insert(row, bucket);
        }
        if !waits && self.first.is_empty() {
            return;
        }
        if self.rows.len() <= bucket {
            self.rows.resize(bucket + 1, 0);
        }
        self.rows[bucket] += 1;
        self.keys += usize::from(self.rows[bucket] == 1);
    }

    /// Ends the batch that begins with this row.
    pub(super) fn close(&mut self, first: Row, pieces: &Pieces) {
        self.first.remove(&first);
        let end = self.first.first_key_value().map_or_else(|| pieces.end(), |(row, _)| *row);
        while self.start < end {
            match pieces.bucket(self.start) {
                Some(bucket) => {
                    self.rows[bucket] -= 1;
                    self.keys -= usize::from(self.rows[bucket] == 0);
                    self.start.1 += 1;
                }
                None => self.start = (self.start.0 + 1, 0),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
