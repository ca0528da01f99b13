//! Chunks as Arrow IPC streams: the form of chunks in blobs and for other processes.

use std::io::{Read, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use forebay_core::{Error, Result};

use crate::Chunk;

/// Writes chunks of one schema as an Arrow IPC stream.
///
/// # Errors
/// Internal when Arrow or the writer refuses.
pub fn write_ipc(chunks: &[Chunk], with_ids: bool, to: impl Write) -> Result<()> {
    let [first, ..] = chunks else { return Err(Error::internal("no chunk to write")) };
    let first = first.to_record_batch(with_ids)?;
    let mut writer = StreamWriter::try_new(to, &first.schema()).map_err(crate::chunk::arrow)?;
    writer.write(&first).map_err(crate::chunk::arrow)?;
    for chunk in &chunks[1..] {
        writer.write(&chunk.to_record_batch(with_ids)?).map_err(crate::chunk::arrow)?;
    }
    writer.finish().map_err(crate::chunk::arrow)
}

/// Reads the record batches of an Arrow IPC stream.
///
/// # Errors
/// Data when it is not one.
pub fn read_ipc(from: impl Read) -> Result<(Arc<arrow_schema::Schema>, Vec<RecordBatch>)> {
    let data = |e| Error::data(format!("not an arrow ipc stream: {e}"));
    let reader = StreamReader::try_new(from, None).map_err(data)?;
    let schema = reader.schema();
    Ok((schema, reader.collect::<Result<_, _>>().map_err(data)?))
}
