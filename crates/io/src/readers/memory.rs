//! `Memory`: arrays that travel with the graph.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use bytes::Bytes;
use forebay_core::{Epoch, Error, Result};
use forebay_data::{Chunk, Schema};

use super::{Chunks, Place, Reader, check, consecutive, ids, stream_counted};
use crate::{SourceIndex, fail, rows};

pub(crate) struct Memory {
    schema: Arc<Schema>,
    index: SourceIndex,
    columns: Vec<ArrayRef>,
}

impl Memory {
    /// Opens the arrays of a blob, without copying them when it holds one batch.
    pub(crate) fn open(schema: Arc<Schema>, index: SourceIndex, blob: Bytes) -> Result<Self> {
        let batch = of_fields(&schema, &decode(blob)?)?;
        let want = index.rows().unwrap_or(0);
        if batch.num_rows() as u64 != want {
            return Err(Error::data(format!("the arrays hold {} rows, and should hold {want}", batch.num_rows())));
        }
        Ok(Self { columns: adopt(&schema, &batch)?, schema, index })
    }
}

/// Returns only the columns that are read.
fn of_fields(schema: &Schema, batch: &RecordBatch) -> Result<RecordBatch> {
    let place = |name: &String| {
        let place = batch.schema_ref().index_of(name);
        place.map_err(|_| Error::data(format!("the arrays have no column {name:?}")))
    };
    let places: Vec<_> = schema.fields().iter().map(|field| place(&field.name)).collect::<Result<_>>()?;
    batch.project(&places).map_err(fail::arrow)
}

/// Converts columns that another Arrow writer made, and leaves columns of the right layout unchanged.
fn adopt(schema: &Arc<Schema>, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let convert = |batch: &RecordBatch| {
        let nameless = super::block_ids(0, 0, batch.num_rows(), Epoch(0));
        Chunk::from_foreign(schema, batch.columns(), nameless).map_err(|e| Error::data(e.message()))
    };
    let none = convert(&batch.slice(0, 0))?;
    let as_is = none.columns().iter().zip(batch.columns()).all(|(a, b)| a.data_type() == b.data_type());
    let complete = schema.fields().iter().zip(batch.columns()).all(|(f, c)| f.nullable || c.null_count() == 0);
    if as_is && complete { Ok(batch.columns().to_vec()) } else { Ok(convert(batch)?.columns().to_vec()) }
}

fn decode(blob: Bytes) -> Result<RecordBatch> {
    let bad = |e: arrow_schema::ArrowError| Error::data(format!("the arrays are not an arrow ipc stream: {e}"));
    let mut decoder = StreamDecoder::new();
    let mut buffer = Buffer::from(blob);
    let mut batches = Vec::new();
    while !buffer.is_empty() {
        batches.extend(decoder.decode(&mut buffer).map_err(bad)?);
    }
    decoder.finish().map_err(bad)?;
    match batches.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let schema =
                decoder.schema().ok_or_else(|| Error::data("the arrays are not an arrow ipc stream: it is empty"))?;
            Ok(RecordBatch::new_empty(schema))
        }
        [first, ..] => arrow_select::concat::concat_batches(&first.schema(), &batches).map_err(fail::arrow),
    }
}

impl Reader for Memory {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.index, places)?;
        let ids = ids(&self.index, places);
        let columns = if let Some(first) = consecutive(places) {
            self.columns.iter().map(|c| c.slice(first as usize, places.len())).collect()
        } else {
            let rows: Vec<usize> = places.iter().map(|p| p.row as usize).collect();
            let fields = self.schema.fields().iter();
            fields.zip(&self.columns).map(|(f, c)| rows::take(&f.kind, c, &rows)).collect::<Result<_>>()?
        };
        Chunk::new(self.schema.clone(), columns, ids)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        stream_counted(self, &self.index, block, epoch, rows)
    }
}
