//! Decodes the messages of a worker to chunks. Their heads were checked before (`forebay_proto::ChunkHead`).

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Schema, column_of};

/// Decodes the parts of one chunk.
///
/// # Errors
/// Data if they are not record batches of the schema.
pub(crate) fn chunk(parts: Vec<FlightData>, wire: &SchemaRef, schema: &Arc<Schema>) -> Result<Chunk> {
    let read = |data| Chunk::from_record_batch(schema, &batch(data, wire)?);
    let chunks = parts.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    Chunk::concat(&chunks)
}

/// Decodes the columns of a chunk that are in its message; the columns `elsewhere` are not.
///
/// # Errors
/// Data if the message does not have the other columns of the schema.
pub(crate) fn rest(data: FlightData, elsewhere: &[usize], wire: &SchemaRef, schema: &Arc<Schema>) -> Result<Chunk> {
    let here = |i: &usize| !elsewhere.contains(i);
    let others: Vec<usize> = (0..wire.fields().len()).filter(here).collect();
    let wire = wire.project(&others).map_err(|e| wrong(&e))?;
    let fields = schema.fields().iter().enumerate().filter(|(i, _)| here(i)).map(|(_, f)| f.clone());
    Chunk::from_record_batch(&Arc::new(Schema::new(fields.collect())?), &batch(data, &Arc::new(wire))?)
}

/// Returns the size of a column that is elsewhere.
///
/// # Errors
/// Data if the column's kind has no fixed size, so it cannot be elsewhere.
pub(crate) fn bytes_of(column: usize, rows: usize, schema: &Schema) -> Result<usize> {
    let row = schema.fields().get(column).and_then(|f| f.kind.row_bytes());
    let bytes = row.and_then(|row| row.checked_mul(rows));
    bytes.ok_or_else(|| Error::data(format!("a worker sent column {column} apart, which must be in the message")))
}

/// Joins the columns of the message and the columns that were elsewhere.
///
/// # Errors
/// Data if they do not make a chunk of the schema.
pub(crate) fn assemble(rest: &Chunk, elsewhere: &[(usize, Buffer)], schema: &Arc<Schema>) -> Result<Chunk> {
    let mut others = rest.columns().iter();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (i, field) in schema.fields().iter().enumerate() {
        columns.push(match elsewhere.iter().find(|(column, _)| *column == i) {
            Some((_, values)) => column_of(&field.kind, values.clone(), rest.num_rows())?,
            None => others.next().cloned().ok_or_else(|| wrong(&"it lacks a column"))?,
        });
    }
    rest.with_columns(schema.clone(), columns)
}

fn wrong(e: &dyn std::fmt::Display) -> Error {
    Error::data(format!("a chunk cannot be read: {e}"))
}

fn batch(data: FlightData, wire: &SchemaRef) -> Result<RecordBatch> {
    let message = arrow_ipc::root_as_message(&data.data_header).map_err(|e| wrong(&e))?;
    let header = message.header_as_record_batch().ok_or_else(|| wrong(&"it is not a record batch"))?;
    let body = Buffer::from(data.data_body.clone());
    // Arrow panics if a header names bytes outside the body.
    let read = AssertUnwindSafe(|| {
        let (dictionaries, version) = (HashMap::new(), message.version());
        arrow_ipc::reader::read_record_batch(&body, header, wire.clone(), &dictionaries, None, &version)
    });
    let read = catch_unwind(read).map_err(|_| wrong(&"its header does not fit its body"))?;
    read.map_err(|e| wrong(&e))
}

/// Returns the size of the parts' bodies.
pub(crate) fn num_bytes(parts: &[FlightData]) -> usize {
    parts.iter().map(|p| p.data_body.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_an_error_and_does_not_panic() {
        let wire: SchemaRef = Arc::new(arrow_schema::Schema::empty());
        let schema = Arc::new(Schema::new(Vec::new()).expect("a schema"));
        let message = FlightData::new().with_data_header(&b"header"[..]).with_data_body(&b"body"[..]);
        assert!(chunk(vec![message.clone()], &wire, &schema).is_err());
        assert!(rest(message, &[0], &wire, &schema).is_err());
        assert!(bytes_of(0, 1, &schema).is_err());
    }
}
