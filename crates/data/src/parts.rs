//! Rows that an op has made of one row: each has the id of that row, and a part of its own.
//!
//! The id still names the sample of the source, so errors, skipped samples and caches know the rows by their sample.
//! The part tells the rows of a sample apart where random numbers are drawn. A chunk without such rows has no parts.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::rng::mix64;
use forebay_core::{Epoch, Error, Result};

use crate::{Chunk, RowId, Schema};

/// Set in the parts of rows that were made of parts, which no ordinal has.
const NESTED: u64 = 1 << 63;

impl Chunk {
    /// Returns whether an op has made its rows of others, several (or none) of each.
    pub fn has_parts(&self) -> bool {
        self.parts().is_some()
    }

    /// Returns the part of a row: which of its sample's rows it is, from 0; 0 if no op makes several rows of one. The
    /// parts of rows that were made in several steps are arbitrary, but differ.
    pub fn part(&self, row: usize) -> u64 {
        self.parts().map_or(0, |parts| parts[row])
    }

    /// Returns the id that keys the random numbers of a row: the row's own; for parts after the first one, an id that
    /// no other row has.
    pub fn random_id(&self, row: usize) -> RowId {
        let id = self.ids()[row];
        match self.part(row) {
            0 => id,
            part => RowId { epoch: Epoch(mix64(id.epoch.0 ^ mix64(part))), ..id },
        }
    }

    /// Returns the result of [`Chunk::random_id`] for all rows.
    pub fn random_ids(&self) -> Arc<[RowId]> {
        (0..self.num_rows()).map(|row| self.random_id(row)).collect()
    }

    /// Returns rows that were made of these: `counts[i]` rows of row `i`, in order.
    ///
    /// # Errors
    /// Internal when the counts do not fit the rows, or the columns do not fit the counts.
    pub fn expanded(&self, schema: Arc<Schema>, columns: Vec<ArrayRef>, counts: &[u32]) -> Result<Self> {
        if counts.len() != self.num_rows() {
            return Err(Error::internal(format!("{} counts for {} rows", counts.len(), self.num_rows())));
        }
        let total = counts.iter().map(|&count| count as usize).sum();
        let (mut ids, mut parts) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (row, &count) in counts.iter().enumerate() {
            let (id, part) = (self.ids()[row], self.part(row));
            ids.extend(std::iter::repeat_n(id, count as usize));
            parts.extend((0..u64::from(count)).map(|ordinal| nested(part, ordinal)));
        }
        Ok(Self::new(schema, columns, ids.into())?.over_parts(parts.into()))
    }

    /// Returns the chunk with these parts of its rows.
    ///
    /// # Errors
    /// Internal when there are more or fewer parts than rows.
    pub fn with_parts(self, parts: Arc<[u64]>) -> Result<Self> {
        if parts.len() != self.num_rows() {
            return Err(Error::internal(format!("{} parts for {} rows", parts.len(), self.num_rows())));
        }
        let whole = self.with_columns(self.schema().clone(), self.columns().to_vec())?;
        Ok(whole.with_losses(self.losses().to_vec()).over_parts(parts))
    }
}

/// Returns the part of row `ordinal` that was made of a row of this part.
fn nested(part: u64, ordinal: u64) -> u64 {
    if part == 0 { ordinal } else { mix64(part).wrapping_add(ordinal) | NESTED }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow_array::Int64Array;
    use forebay_core::SampleId;

    use super::*;
    use crate::{DType, Field, Kind};

    fn rows(count: usize) -> Chunk {
        let schema = Arc::new(Schema::new(vec![Field::new("x", Kind::scalar(DType::Int64))]).expect("a schema"));
        let ids = (0..count as u64).map(|row| RowId { sample: SampleId(row), epoch: Epoch(3) }).collect();
        Chunk::new(schema, vec![numbers(count)], ids).expect("a chunk")
    }

    fn numbers(count: usize) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(0..count as i64))
    }

    fn expanded(chunk: &Chunk, counts: &[u32]) -> Chunk {
        let total = counts.iter().sum::<u32>() as usize;
        chunk.expanded(chunk.schema().clone(), vec![numbers(total)], counts).expect("counted")
    }

    #[test]
    fn each_row_of_a_sample_draws_from_a_stream_of_its_own_and_the_first_from_that_of_the_sample() {
        let whole = rows(4);
        let once = expanded(&whole, &[2, 0, 3, 1]);
        assert_eq!(once.ids().iter().map(|id| id.sample.0).collect::<Vec<_>>(), [0, 0, 2, 2, 2, 3]);
        assert_eq!((0..6).map(|row| once.part(row)).collect::<Vec<_>>(), [0, 1, 0, 1, 2, 0]);
        assert_eq!((once.random_id(0), once.random_id(5)), (whole.ids()[0], whole.ids()[3]));
        let twice = expanded(&once, &[3, 3, 3, 3, 3, 3]);
        let streams: HashSet<_> = (0..18).map(|row| twice.random_id(row)).collect();
        assert_eq!(streams.len(), 18);
        assert!(whole.random_ids()[..] == *whole.ids() && !whole.has_parts());
    }

    #[test]
    fn parts_follow_their_rows_through_every_change_and_to_another_process() {
        let chunk = expanded(&rows(3), &[1, 3, 2]);
        let parts = |chunk: &Chunk| (0..chunk.num_rows()).map(|row| chunk.part(row)).collect::<Vec<_>>();
        assert_eq!(parts(&chunk.slice(2, 3)), [1, 2, 0]);
        assert_eq!(parts(&chunk.slice(2, 3).take(&[2, 0]).expect("rows")), [0, 1]);
        let keep = [true, false, false, true, false, true].map(Some).into_iter().collect();
        assert_eq!(parts(&chunk.filter(&keep).expect("rows")), [0, 2, 1]);
        let joined = Chunk::concat(&[rows(2), chunk.slice(3, 3)]).expect("one schema");
        assert_eq!(parts(&joined), [0, 0, 2, 0, 1]);
        let sent = chunk.slice(1, 4).to_record_batch(true).expect("a batch");
        assert_eq!(sent.schema(), Chunk::wire_schema(chunk.schema(), true, true));
        let got = Chunk::from_record_batch(chunk.schema(), &sent).expect("a chunk");
        assert!(parts(&got) == [0, 1, 2, 0] && got.ids() == &chunk.ids()[1..5]);
        let column = chunk.slice(1, 4).with_column(chunk.schema().fields()[0].clone(), numbers(4)).expect("a column");
        assert_eq!(parts(&column), [0, 1, 2, 0]);
    }
}
