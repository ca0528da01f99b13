//! Which rows of a group are decoded, where conditions leave out some.

use std::sync::{Arc, Mutex};

use arrow_buffer::BooleanBuffer;

use crate::formats::arrow::Column;

/// The rows of a group that stay, and the columns of these rows that conditions needed.
pub(super) struct Selection {
    pub(super) kept: Arc<RowMask>,
    /// Each is taken by the thread that decodes its part.
    pub(super) columns: Mutex<Vec<Option<Column>>>,
}

/// Which rows of a group are there.
#[derive(Debug)]
pub(super) struct RowMask {
    bits: BooleanBuffer,
    words: Vec<u64>,
    /// The number of rows before each word.
    before: Vec<u32>,
    count: usize,
}

impl RowMask {
    pub(super) fn of(bits: BooleanBuffer) -> Self {
        let words: Vec<u64> = bits.bit_chunks().iter_padded().collect();
        let mut before = Vec::with_capacity(words.len());
        let mut count = 0;
        for word in &words {
            before.push(count);
            count += word.count_ones();
        }
        Self { bits, words, before, count: count as usize }
    }

    /// Returns the number of rows that are there.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the rows that are there, one bit for each row of the group.
    pub(super) fn bits(&self) -> &BooleanBuffer {
        &self.bits
    }

    /// Returns the place of a row of the group among the rows that are there; `None` if it is left out.
    pub(super) fn place(&self, row: usize) -> Option<usize> {
        let (word, bit) = (*self.words.get(row / 64)?, 1u64 << (row % 64));
        (word & bit != 0).then(|| self.before[row / 64] as usize + (word & (bit - 1)).count_ones() as usize)
    }
}
