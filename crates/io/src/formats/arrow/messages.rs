//! Messages of a file or a stream. The lengths that they state are checked before use.

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{Block, CompressionType, Message, root_as_message};
use arrow_schema::ArrowError;
use forebay_core::{Error, Result, expect_panics};

use crate::limits;
use crate::store::Object;

/// The most bytes of a footer, or of the head of a record batch. A thousand columns take a tenth.
pub(super) const HEAD_BYTES_MAX: u64 = 64 << 20;
/// The bytes before each compressed buffer, which say how long it is without compression.
const LENGTH_BYTES: usize = 8;
/// The most bytes that one byte of LZ4 expands to: each byte of the length of a match counts up to 255.
const LZ4_RATIO_MAX: u64 = 255;
/// The most bytes that one byte of Zstandard expands to: a block of 128 KiB of one repeated byte takes four bytes.
const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// Parts of a record batch.
pub(crate) struct Batches {
    pub(super) batch: RecordBatch,
    pub(super) row: usize,
    pub(super) rows: usize,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.min(self.batch.num_rows() - self.row);
        let part = (rows > 0).then(|| Ok(self.batch.slice(self.row, rows)));
        self.row += rows;
        part
    }
}

/// Reads the head of a block, and with `whole` also its body.
pub(super) fn read(object: &Object, block: &Block, whole: bool) -> Result<Buffer> {
    let uri = object.uri();
    let len = |n: i64| u64::try_from(n).map_err(|_| corrupt(uri, "a length below zero"));
    let (start, head, body) = (len(block.offset())?, len(block.metaDataLength().into())?, len(block.bodyLength())?);
    let all = if whole { head.saturating_add(body) } else { head };
    let max = if head > HEAD_BYTES_MAX { HEAD_BYTES_MAX } else { limits::group_bytes_max(all) };
    limits::group("a record batch", head.max(all), max).map_err(|e| e.with("file", uri))?;
    object.check_range(start, all)?;
    let mut bytes = MutableBuffer::from_len_zeroed(all as usize);
    object.read_at(start, bytes.as_slice_mut())?;
    Ok(bytes.into())
}

/// Returns the head of a block. The block begins with the length of the head; since version 0.15 a mark precedes it.
pub(super) fn message(block: &[u8]) -> std::result::Result<Message<'_>, ArrowError> {
    let marked = block.starts_with(&[0xff; 4]);
    let head = block.get(if marked { 8 } else { 4 }..);
    let head = head.ok_or_else(|| ArrowError::ParseError("a block without a head".to_owned()))?;
    root_as_message(head).map_err(|e| ArrowError::ParseError(e.to_string()))
}

/// Returns the number of rows of a record batch of `columns` columns. The length of its first column must be the same:
/// a batch with a damaged head must not lose rows without an error.
pub(super) fn rows_of(batch: arrow_ipc::RecordBatch<'_>, columns: usize) -> std::result::Result<u64, ArrowError> {
    let rows = batch.length();
    let first = batch.nodes().and_then(|nodes| nodes.iter().next()).map(arrow_ipc::FieldNode::length);
    let is_told_twice = if columns == 0 { first.is_none() } else { first == Some(rows) };
    u64::try_from(rows).ok().filter(|_| is_told_twice).ok_or_else(|| {
        let of = first.map_or_else(|| "none".to_owned(), |first| first.to_string());
        ArrowError::ParseError(format!("a record batch of {rows} rows, whose first column has {of}"))
    })
}

/// Refuses a block whose compressed buffers state a size above the ratio of the codec or above the memory limit.
pub(super) fn check_sizes(uri: &str, bytes: &Buffer, block: &Block) -> Result<()> {
    let sizes = || {
        let message = message(bytes)?;
        let dictionary = message.header_as_dictionary_batch().and_then(|d| d.data());
        let batch = message.header_as_record_batch().or(dictionary);
        let batch = batch.ok_or_else(|| ArrowError::ParseError("no record batch".to_owned()))?;
        let body = bytes.get(block.metaDataLength() as usize..).unwrap_or_default();
        let Some(compression) = batch.compression() else { return Ok(0) };
        let ratio = if compression.codec() == CompressionType::ZSTD { ZSTD_RATIO_MAX } else { LZ4_RATIO_MAX };
        let size = |buffer: &arrow_ipc::Buffer| {
            // An empty buffer has no length prefix: the bytes at its offset belong to the next buffer.
            let at = usize::try_from(buffer.offset()).ok().filter(|_| buffer.length() > 0)?;
            let prefix = body.get(at..at.checked_add(LENGTH_BYTES)?)?;
            // The prefix of an uncompressed buffer is -1.
            u64::try_from(i64::from_le_bytes(prefix.try_into().ok()?)).ok()
        };
        batch.buffers().into_iter().flatten().try_fold(0u64, |total, buffer| {
            let (size, stored) = (size(buffer).unwrap_or(0), u64::try_from(buffer.length()).unwrap_or(0));
            if size > stored.saturating_mul(ratio) {
                let error = format!("{stored} compressed bytes that say they are {size}");
                return Err(ArrowError::ParseError(error));
            }
            Ok(total.saturating_add(size))
        })
    };
    let total = guarded(uri, sizes)?;
    let max = limits::group_bytes_max(bytes.len() as u64);
    limits::group("a record batch", total, max).map_err(|e| e.with("file", uri))
}

pub(super) fn corrupt(uri: &str, what: &str) -> Error {
    Error::data(format!("not an arrow file that can be read: {what}"))
        .with("file", uri)
        .hint("the file is truncated, corrupt or of another format: write or fetch it again")
}

/// Runs the decoder and names the file in its errors. The decoder reports some corrupt files by a panic.
pub(super) fn guarded<T>(uri: &str, decode: impl FnOnce() -> std::result::Result<T, ArrowError>) -> Result<T> {
    match expect_panics(decode) {
        Ok(decoded) => decoded.map_err(|e| corrupt(uri, &e.to_string())),
        Err(_) => Err(corrupt(uri, "the decoder gave up")),
    }
}
