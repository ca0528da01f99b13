//! Turns a chunk into Flight messages, once, however often it is sent.
//!
//! Each message is one Arrow record batch. Its `app_metadata` is this **chunk head**, which lets the reader know what
//! it has and that it is whole; a stranger's Arrow client reads the batch without it:
//!
//! ```text
//! bytes 0..8   the chunk's index in its split, little endian
//! bytes 8..12  CRC32C of the message's data header followed by its data body, little endian
//! byte  12     1 when more parts of the same chunk follow, else 0
//! ```

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, Schema};

/// A message's body should not be larger: a chunk that is goes in parts, by rows.
const PART_BYTES_MAX: usize = 512 << 20;
/// gRPC writes a message's length in 32 bits; this leaves room for the heads.
const MESSAGE_BYTES_MAX: usize = u32::MAX as usize - (1 << 20);

/// One chunk, ready to send: one message, or more where it is very large.
pub(crate) type Frames = std::sync::Arc<[FlightData]>;

/// Encodes for one thread: what it allocates is used again.
pub(crate) struct Encoder {
    context: IpcWriteContext,
    options: IpcWriteOptions,
}

impl Default for Encoder {
    fn default() -> Self {
        let mut context = IpcWriteContext::default();
        context.set_reserve_scratch(true);
        Self { context, options: IpcWriteOptions::default() }
    }
}

/// Returns the Arrow schema that the chunks of a split have on the wire.
pub(crate) fn wire_schema(schema: &std::sync::Arc<Schema>, with_ids: bool) -> Result<arrow_schema::SchemaRef> {
    let columns = schema.fields().iter().map(|f| arrow_array::new_empty_array(&f.kind.arrow())).collect();
    Ok(Chunk::new(schema.clone(), columns, [].into())?.to_record_batch(with_ids)?.schema())
}

/// Returns the message that begins every stream.
pub(crate) fn schema_frame(schema: &arrow_schema::Schema) -> FlightData {
    SchemaAsIpc::new(schema, &IpcWriteOptions::default()).into()
}

impl Encoder {
    /// Encodes chunk `index` of a split.
    ///
    /// # Errors
    /// Exhausted when one row alone is too large for a message.
    pub(crate) fn encode(&mut self, chunk: &Chunk, index: u64, with_ids: bool) -> Result<Frames> {
        let batch = chunk.to_record_batch(with_ids)?;
        let parts = chunk.num_bytes().div_ceil(PART_BYTES_MAX).clamp(1, batch.num_rows().max(1));
        let rows = batch.num_rows().div_ceil(parts).max(1);
        let mut frames = Vec::with_capacity(parts);
        let mut at = 0;
        loop {
            let part = batch.slice(at, rows.min(batch.num_rows() - at));
            at += part.num_rows();
            let more = at < batch.num_rows();
            frames.push(self.frame(&part, index, more)?);
            if !more {
                return Ok(frames.into());
            }
        }
    }

    fn frame(&mut self, batch: &RecordBatch, index: u64, more: bool) -> Result<FlightData> {
        let mut dictionaries = DictionaryTracker::new(false);
        let (_, mut data) = IpcDataGenerator::default()
            .encode(batch, &mut dictionaries, &self.options, &mut self.context)
            .map_err(|e| Error::internal(format!("a chunk cannot be encoded: {e}")))?;
        if data.arrow_data.len() > MESSAGE_BYTES_MAX {
            let bytes = data.arrow_data.len();
            return Err(Error::new(
                ErrorKind::Exhausted,
                format!("a sample of {bytes} bytes exceeds the limit of {MESSAGE_BYTES_MAX} bytes of one message"),
            ));
        }
        // The scratch space of a larger chunk before must not be kept as long as this one.
        if data.arrow_data.capacity() > 2 * data.arrow_data.len() {
            data.arrow_data.shrink_to_fit();
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&data.ipc_message), &data.arrow_data);
        Ok(FlightData::from(data).with_app_metadata(head(index, crc, more)))
    }
}

fn head(index: u64, crc: u32, more: bool) -> Bytes {
    let mut head = Vec::with_capacity(13);
    head.extend_from_slice(&index.to_le_bytes());
    head.extend_from_slice(&crc.to_le_bytes());
    head.push(u8::from(more));
    head.into()
}

/// Returns what a chunk's messages hold in memory.
pub(crate) fn num_bytes(frames: &Frames) -> usize {
    frames.iter().map(|f| f.data_body.len() + f.data_header.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, Kind, RowId};

    use super::*;

    #[test]
    fn a_chunk_becomes_one_message_with_its_head() {
        let schema = Arc::new(Schema::new(vec![Field::new("id", Kind::scalar(DType::Int64))]).expect("a schema"));
        let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; 3].into();
        let chunk = Chunk::new(schema.clone(), vec![Arc::new(Int64Array::from(vec![1, 2, 3]))], ids).expect("a chunk");
        for (with_ids, columns) in [(false, 1), (true, 3)] {
            assert_eq!(wire_schema(&schema, with_ids).expect("a schema").fields().len(), columns);
            let frames = Encoder::default().encode(&chunk, 0x0102, with_ids).expect("frames");
            let [frame] = &*frames else { panic!("{} messages", frames.len()) };
            let crc = crc32c::crc32c_append(crc32c::crc32c(&frame.data_header), &frame.data_body);
            let head = [&[2, 1, 0, 0, 0, 0, 0, 0][..], &crc.to_le_bytes(), &[0]].concat();
            assert_eq!(&frame.app_metadata[..], &head[..]);
        }
    }

    #[test]
    fn a_chunk_without_rows_is_sent_too() {
        let schema = Arc::new(Schema::new(vec![Field::new("id", Kind::scalar(DType::Int64))]).expect("a schema"));
        let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(Int64Array::from(Vec::<i64>::new()))];
        let chunk = Chunk::new(schema, columns, [].into()).expect("a chunk");
        assert_eq!(Encoder::default().encode(&chunk, 0, false).expect("frames").len(), 1);
    }
}
