//! `Range`: computed integers.

use std::sync::Arc;

use arrow_array::Int64Array;
use forebay_core::{Epoch, Result};
use forebay_data::{Chunk, Schema};

use super::{Chunks, Place, Reader, check, ids, stream_counted};
use crate::SourceIndex;

pub(crate) struct Range {
    schema: Arc<Schema>,
    index: SourceIndex,
    start: i64,
    step: i64,
}

impl Range {
    pub(crate) fn new(schema: Arc<Schema>, index: SourceIndex, start: i64, step: i64) -> Self {
        Self { schema, index, start, step }
    }
}

impl Reader for Range {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.index, places)?;
        // Wrapping is exact here: the true value of a row below the count lies between start and stop.
        let value = |p: &Place| self.start.wrapping_add((p.row as i64).wrapping_mul(self.step));
        let values = Int64Array::from_iter_values(places.iter().map(value));
        Chunk::new(self.schema.clone(), vec![Arc::new(values)], ids(&self.index, places))
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        stream_counted(self, &self.index, block, epoch, rows)
    }
}
