//! Reads what a worker sends: the schema, then the parts of chunks, each with its head.
//!
//! The head in `app_metadata`: the chunk's index (8 bytes, little endian), the CRC32C of data header and data body
//! (4 bytes, little endian), and 1 when more parts of the chunk follow. Invariant: nothing is decoded before its
//! checksum was right, so what Arrow reads is what the worker wrote.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Schema};

const HEAD_BYTES: usize = 13;

/// What a message says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) index: u64,
    pub(crate) more: bool,
}

/// Checks a message and reads its head.
///
/// # Errors
/// Data when it is not what the worker sent.
pub(crate) fn head(data: &FlightData) -> Result<Head> {
    let head: &[u8; HEAD_BYTES] =
        data.app_metadata.as_ref().try_into().map_err(|_| Error::data("a chunk came without its head"))?;
    let (index, rest) = head.split_at(8);
    let (crc, more) = rest.split_at(4);
    let word = |b: &[u8]| b.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    let found = crc32c::crc32c_append(crc32c::crc32c(&data.data_header), &data.data_body);
    if word(crc) != u64::from(found) {
        return Err(Error::data(format!("chunk {} was damaged on its way: its checksum is wrong", word(index))));
    }
    Ok(Head { index: word(index), more: more == [1] })
}

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

    /// A message as `forebay-worker` writes it.
    fn message(body: &'static [u8], more: u8) -> FlightData {
        let crc = crc32c::crc32c_append(crc32c::crc32c(b"header"), body);
        let head = [&7u64.to_le_bytes()[..], &crc.to_le_bytes(), &[more]].concat();
        FlightData::new().with_data_header(&b"header"[..]).with_data_body(body).with_app_metadata(head)
    }

    #[test]
    fn a_head_is_read_and_any_damage_is_seen() {
        assert_eq!(head(&message(b"body", 1)), Ok(Head { index: 7, more: true }));
        assert_eq!(head(&message(b"", 0)), Ok(Head { index: 7, more: false }));
        let damaged = [
            message(b"body", 0).with_data_body(&b"bodY"[..]),
            message(b"body", 0).with_data_header(&b"hEader"[..]),
            message(b"body", 0).with_app_metadata(&b""[..]),
        ];
        for data in damaged {
            assert!(head(&data).is_err());
        }
    }

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        let wire: SchemaRef = Arc::new(arrow_schema::Schema::empty());
        let schema = Arc::new(Schema::new(Vec::new()).expect("a schema"));
        let error = chunk(vec![message(b"body", 0)], &wire, &schema).map(|_| ());
        assert!(error.is_err());
    }
}
