//! Encodes chunks as Flight messages: Arrow record batches, each with a head (see `forebay_proto::ChunkHead`).
//!
//! Forebay's own consumers get the same messages, mostly without the large columns (see `transfer`).

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result, tracer};
use forebay_data::{Chunk, Loss};
use forebay_proto::{ChunkHead, Payload, spans_to_bytes};

use crate::splits::chunk::ProducedChunk;

/// The largest body of a message. A larger chunk is sent in parts, by rows.
const PART_BYTES_MAX: usize = 512 << 20;
/// gRPC writes a message's length in 32 bits; this leaves room for the heads.
const MESSAGE_BYTES_MAX: usize = u32::MAX as usize - (1 << 20);

/// Encodes for one stream, and reuses its allocations.
pub(crate) struct Encoder {
    context: IpcWriteContext,
    options: IpcWriteOptions,
    part_bytes_max: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        let mut context = IpcWriteContext::default();
        context.set_reserve_scratch(true);
        Self { context, options: IpcWriteOptions::default(), part_bytes_max: PART_BYTES_MAX }
    }
}

/// Returns the skipped samples of a chunk, and its spans as of now, for its head.
pub(crate) fn told(produced: &ProducedChunk) -> (Bytes, Bytes) {
    let spans = produced.spans.as_ref().map_or_else(Bytes::new, |spans| spans_to_bytes(spans, tracer().now()));
    (Loss::to_bytes(produced.chunk.losses()), spans)
}

/// Returns the first message of every stream.
pub(crate) fn schema_frame(schema: &arrow_schema::Schema) -> FlightData {
    SchemaAsIpc::new(schema, &IpcWriteOptions::default()).into()
}

impl Encoder {
    /// Encodes chunk `index` of a split: as one message, or as several if it is very large.
    ///
    /// # Errors
    /// Exhausted when a single row is too large for a message.
    pub(crate) fn encode(
        &mut self,
        produced: &ProducedChunk,
        index: u64,
        with_ids: bool,
    ) -> Result<VecDeque<FlightData>> {
        let ProducedChunk { chunk, ops_on_worker, .. } = produced;
        let batch = chunk.to_record_batch(with_ids)?;
        let parts = chunk.num_bytes().div_ceil(self.part_bytes_max).clamp(1, batch.num_rows().max(1));
        let rows = batch.num_rows().div_ceil(parts).max(1);
        let mut messages = VecDeque::with_capacity(parts);
        let mut at = 0;
        loop {
            let part = batch.slice(at, rows.min(batch.num_rows() - at));
            at += part.num_rows();
            let more = at < batch.num_rows();
            // The last part lists the skipped samples: the chunk is whole then.
            let (losses, spans) = if more { Default::default() } else { told(produced) };
            let head =
                ChunkHead { index, more, ops_on_worker: *ops_on_worker, payload: Payload::Inline, losses, spans };
            messages.push_back(head.seal(self.message(&part)?));
            if !more {
                return Ok(messages);
            }
        }
    }

    /// Encodes the columns of a chunk that are not sent in another way; the head has the places of the others.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub(crate) fn encode_rest(&mut self, rest: &Chunk, head: &ChunkHead, with_ids: bool) -> Result<FlightData> {
        Ok(head.seal(self.message(&rest.to_record_batch(with_ids)?)?))
    }

    /// Returns whether a chunk fits into one message.
    pub(crate) fn fits(&self, chunk: &Chunk) -> bool {
        chunk.num_bytes() <= self.part_bytes_max
    }

    fn message(&mut self, batch: &RecordBatch) -> Result<FlightData> {
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
        // The scratch space of a larger chunk before must not be kept for as long as this chunk.
        if data.arrow_data.capacity() > 2 * data.arrow_data.len() {
            data.arrow_data.shrink_to_fit();
        }
        Ok(FlightData::from(data))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, Kind, RowId, Schema};

    use super::*;

    fn produced(values: Vec<i64>) -> ProducedChunk {
        let schema = Arc::new(Schema::new(vec![Field::new("id", Kind::scalar(DType::Int64))]).expect("a schema"));
        let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; values.len()].into();
        let chunk = Chunk::new(schema, vec![Arc::new(Int64Array::from(values))], ids).expect("a chunk");
        ProducedChunk { chunk, ops_on_worker: 7, shared: false, spans: None }
    }

    #[test]
    fn a_chunk_becomes_one_message_even_without_rows() {
        for (values, with_ids) in [(vec![1, 2, 3], false), (vec![1, 2, 3], true), (vec![], false)] {
            let produced = produced(values);
            assert_eq!(
                Chunk::wire_schema(produced.chunk.schema(), with_ids, false).fields().len(),
                if with_ids { 3 } else { 1 }
            );
            let messages = Encoder::default().encode(&produced, 0x0102, with_ids).expect("messages");
            assert_eq!(messages.len(), 1);
            assert_eq!(
                ChunkHead::open(&messages[0]),
                Ok(ChunkHead { index: 0x0102, ops_on_worker: 7, ..ChunkHead::default() })
            );
        }
    }

    #[test]
    fn a_very_large_chunk_goes_in_parts_by_rows() {
        let mut encoder = Encoder { part_bytes_max: 3 * 8, ..Encoder::default() };
        let messages = encoder.encode(&produced((0..10).collect()), 5, false).expect("messages");
        let heads: Vec<_> = messages.iter().map(|m| ChunkHead::open(m).expect("whole").more).collect();
        assert_eq!(heads, [true, true, true, false]);
    }
}
