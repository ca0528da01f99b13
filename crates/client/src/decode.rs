//! Reads what a worker sends: the schema, then the parts of chunks, whose heads were checked (`forebay_proto::ChunkHead`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Schema, column_of};

/// Reads the message that begins a stream.
///
/// # Errors
/// Data when it is no schema.
pub(crate) fn schema(data: &FlightData) -> Result<SchemaRef> {
    let schema = arrow_schema::Schema::try_from(data);
    schema.map(Arc::new).map_err(|e| Error::data(format!("a worker's stream does not begin with a schema: {e}")))
}

/// Reads the parts of one chunk.
///
/// # Errors
/// Data when they are not record batches of the schema.
pub(crate) fn chunk(parts: Vec<FlightData>, wire: &SchemaRef, schema: &Arc<Schema>) -> Result<Chunk> {
    let read = |data| Chunk::from_record_batch(schema, &batch(data, wire)?);
    let chunks = parts.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    Chunk::concat(&chunks)
}

/// Reads a chunk some of whose columns are lent.
///
/// # Errors
/// Data when message and loan do not make a chunk of the schema.
pub(crate) fn lent_chunk(
    rest: FlightData,
    lent: Vec<(usize, Buffer)>,
    wire: &SchemaRef,
    schema: &Arc<Schema>,
) -> Result<Chunk> {
    let wrong = |e: &dyn std::fmt::Display| Error::data(format!("a chunk cannot be read: {e}"));
    let is_lent = |i: usize| lent.iter().any(|(column, _)| *column == i);
    let others: Vec<usize> = (0..wire.fields().len()).filter(|&i| !is_lent(i)).collect();
    let wire = Arc::new(wire.project(&others).map_err(|e| wrong(&e))?);
    let fields = schema.fields().iter().enumerate().filter(|(i, _)| !is_lent(*i)).map(|(_, f)| f.clone());
    let rest = Chunk::from_record_batch(&Arc::new(Schema::new(fields.collect())?), &batch(rest, &wire)?)?;
    let mut others = rest.columns().iter();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (i, field) in schema.fields().iter().enumerate() {
        columns.push(match lent.iter().find(|(column, _)| *column == i) {
            Some((_, values)) => column_of(&field.kind, values.clone(), rest.num_rows())?,
            None => others.next().cloned().ok_or_else(|| wrong(&"it lacks a column"))?,
        });
    }
    rest.with_columns(schema.clone(), columns)
}

fn batch(data: FlightData, wire: &SchemaRef) -> Result<RecordBatch> {
    let wrong = |e: &dyn std::fmt::Display| Error::data(format!("a chunk cannot be read: {e}"));
    let message = arrow_ipc::root_as_message(&data.data_header).map_err(|e| wrong(&e))?;
    let header = message.header_as_record_batch().ok_or_else(|| wrong(&"it is no record batch"))?;
    let body = Buffer::from(data.data_body.clone());
    arrow_ipc::reader::read_record_batch(&body, header, wire.clone(), &HashMap::new(), None, &message.version())
        .map_err(|e| wrong(&e))
}

/// Returns what the parts take.
pub(crate) fn num_bytes(parts: &[FlightData]) -> usize {
    parts.iter().map(|p| p.data_body.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        let wire: SchemaRef = Arc::new(arrow_schema::Schema::empty());
        let schema = Arc::new(Schema::new(Vec::new()).expect("a schema"));
        let message = FlightData::new().with_data_header(&b"header"[..]).with_data_body(&b"body"[..]);
        assert!(chunk(vec![message.clone()], &wire, &schema).is_err());
        assert!(lent_chunk(message, Vec::new(), &wire, &schema).is_err());
    }
}
