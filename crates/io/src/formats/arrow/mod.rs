//! Arrow IPC files (Feather, version 2): a footer says where their record batches are, and each of these is decoded by
//! itself. And, of these and of Parquet files: which columns there are, and columns as this project stores them.
//!
//! Invariants: no length that a file states is believed before it is compared with the file or with `limits`; whatever
//! the bytes are, reading them gives rows or an error that names file and record batch.

mod convert;
mod json_text;
mod schema;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, CompressionType, Message, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, Schema as ArrowSchema, SchemaRef};
use forebay_core::{Error, Result};
use forebay_data::Field;

use super::grouped::Grouped;
use crate::limits;
use crate::store::Object;
pub(crate) use convert::{Column, Lack, columns};
pub(crate) use schema::{
    Found, check, check_time, check_times, fields, found, may_be_time, not_there, other_clock, wider,
};

/// What ends a file: the length of its footer, and a magic word.
const TAIL_BYTES: u64 = 10;
/// The most bytes of a footer, or of the head of a record batch. A thousand columns take a tenth.
const HEAD_BYTES_MAX: u64 = 64 << 20;
/// The bytes before each compressed buffer, which say how long it is without compression.
const LENGTH_BYTES: usize = 8;
/// No byte of LZ4 stands for more bytes: the length of a match goes on with bytes that count to 255,
const LZ4_RATIO_MAX: u64 = 255;
/// and none of Zstandard: a block of 128 KiB that is all one byte takes four.
const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// A file, its footer and dictionaries read.
#[derive(Debug)]
pub(crate) struct File {
    object: Arc<Object>,
    schema: SchemaRef,
    decoder: FileDecoder,
    batches: Vec<Block>,
}

impl File {
    /// Reads the footer, and the dictionaries.
    ///
    /// # Errors
    /// Data when it is not an Arrow file.
    pub(crate) fn open(object: Arc<Object>) -> Result<Self> {
        let footer = footer(&object)?;
        let uri = object.uri();
        let (schema, mut decoder, batches, dictionaries) = guarded(uri, || {
            let footer = root_as_footer(&footer).map_err(|e| ArrowError::ParseError(e.to_string()))?;
            let schema = footer.schema().ok_or_else(|| ArrowError::ParseError("no schema".to_owned()))?;
            if !schema.endianness().equals_to_target_endianness() {
                return Err(ArrowError::ParseError("another byte order than this machine's".to_owned()));
            }
            let schema: SchemaRef = try_fb_to_schema(schema)?.into();
            let decoder = FileDecoder::new(schema.clone(), footer.version());
            let batches: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
            let dictionaries: Vec<Block> = footer.dictionaries().into_iter().flatten().copied().collect();
            Ok((schema, decoder, batches, dictionaries))
        })?;
        for block in &dictionaries {
            let bytes = read(&object, block, true)?;
            check_sizes(uri, &bytes, block)?;
            guarded(uri, || decoder.read_dictionary(block, &bytes))?;
        }
        Ok(Self { object, schema, decoder, batches })
    }

    /// Returns the columns as they are read.
    pub(crate) fn fields(&self) -> Vec<Field> {
        fields(&self.schema)
    }

    /// Returns the columns as they are read, and what else there is to know of them.
    pub(crate) fn columns(&self) -> Vec<Found> {
        found(&self.schema)
    }

    /// Decodes the wanted columns alone from here on.
    fn wanting(self, wanted: &[Field]) -> Self {
        let is_of =
            |column: &str, name: &str| name == column || name.strip_prefix(column).is_some_and(|r| r.starts_with('.'));
        let columns = self.schema.fields().iter().enumerate();
        let wanted = columns.filter(|(_, column)| wanted.iter().any(|f| is_of(column.name(), &f.name)));
        let decoder = self.decoder.with_projection(wanted.map(|(place, _)| place).collect());
        Self { decoder, ..self }
    }

    /// Returns the rows of each record batch.
    ///
    /// # Errors
    /// Data when the head of one cannot be read.
    fn group_rows(&self) -> Result<Vec<u64>> {
        let rows = |(group, block): (usize, &Block)| {
            let head = read(&self.object, block, false)?;
            let rows = guarded(self.object.uri(), || {
                let message = message(&head)?;
                let batch = message.header_as_record_batch();
                batch.map(|b| b.length()).ok_or_else(|| ArrowError::ParseError("no record batch".to_owned()))
            });
            let rows = rows.map_err(|e| e.with("record batch", group))?;
            u64::try_from(rows).map_err(|_| corrupt(self.object.uri(), "rows below zero"))
        };
        self.batches.iter().enumerate().map(rows).collect()
    }

    /// Decodes a record batch.
    ///
    /// # Errors
    /// Data when it cannot be read; Exhausted when it says that it is more than memory should be asked for.
    fn batch(&self, group: usize) -> Result<RecordBatch> {
        let uri = self.object.uri();
        let block = self.batches.get(group).ok_or_else(|| corrupt(uri, "a record batch is not there"))?;
        let decode = || {
            let bytes = read(&self.object, block, true)?;
            check_sizes(uri, &bytes, block)?;
            let batch = guarded(uri, || self.decoder.read_record_batch(block, &bytes))?;
            batch.ok_or_else(|| corrupt(uri, "no record batch"))
        };
        decode().map_err(|e| e.with("record batch", group))
    }
}

impl Grouped for File {
    const GROUP: &'static str = "record batch";
    const BY_COLUMN: bool = false;
    type Batches = Batches;

    fn open(object: Arc<Object>, wanted: &[Field]) -> Result<Self> {
        Self::open(object).map(|file| file.wanting(wanted))
    }

    fn schema(&self) -> &ArrowSchema {
        &self.schema
    }

    fn batches(&self, group: usize, _wanted: &[Field], rows: usize) -> Result<Batches> {
        Ok(Batches { batch: self.batch(group)?, row: 0, rows: rows.max(1) })
    }
}

/// Parts of a record batch.
pub(crate) struct Batches {
    batch: RecordBatch,
    row: usize,
    rows: usize,
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

/// Returns the rows of each record batch of a file.
pub(crate) fn group_rows(object: Arc<Object>) -> Result<Vec<u64>> {
    File::open(object)?.group_rows()
}

/// Reads the bytes of the footer.
fn footer(object: &Object) -> Result<Vec<u8>> {
    let (uri, size) = (object.uri(), object.size());
    let not_there = || {
        Error::data("not an arrow file that can be read: it does not end as one").with("file", uri).hint(
            "it is truncated or of another format; a stream (as Hugging Face's caches are) and Feather version 1 have no \
             footer: write it again with pyarrow.ipc.new_file or pyarrow.feather.write_feather",
        )
    };
    let end = size.checked_sub(TAIL_BYTES).ok_or_else(not_there)?;
    let mut tail = [0; TAIL_BYTES as usize];
    object.read_at(end, &mut tail)?;
    let len = read_footer_length(tail).map_err(|_| not_there())? as u64;
    let start = end.checked_sub(len).filter(|_| len <= HEAD_BYTES_MAX).ok_or_else(not_there)?;
    let mut footer = vec![0; len as usize];
    object.read_at(start, &mut footer)?;
    Ok(footer)
}

/// Reads a block: its head, and with `whole` what follows.
fn read(object: &Object, block: &Block, whole: bool) -> Result<Buffer> {
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

/// Returns the head of a block, which begins with its length, and since version 0.15 with a mark before that.
fn message(block: &[u8]) -> std::result::Result<Message<'_>, ArrowError> {
    let marked = block.starts_with(&[0xff; 4]);
    let head = block.get(if marked { 8 } else { 4 }..);
    let head = head.ok_or_else(|| ArrowError::ParseError("a block without a head".to_owned()))?;
    root_as_message(head).map_err(|e| ArrowError::ParseError(e.to_string()))
}

/// Refuses a block whose compressed buffers say that they are more than they can be, or than memory should be asked for.
fn check_sizes(uri: &str, bytes: &Buffer, block: &Block) -> Result<()> {
    let sizes = || {
        let message = message(bytes)?;
        let dictionary = message.header_as_dictionary_batch().and_then(|d| d.data());
        let batch = message.header_as_record_batch().or(dictionary);
        let batch = batch.ok_or_else(|| ArrowError::ParseError("no record batch".to_owned()))?;
        let body = bytes.get(block.metaDataLength() as usize..).unwrap_or_default();
        let Some(compression) = batch.compression() else { return Ok(0) };
        let ratio = if compression.codec() == CompressionType::ZSTD { ZSTD_RATIO_MAX } else { LZ4_RATIO_MAX };
        let size = |buffer: &arrow_ipc::Buffer| {
            // One of no bytes has no length before it either: what is there is the next one's.
            let at = usize::try_from(buffer.offset()).ok().filter(|_| buffer.length() > 0)?;
            let prefix = body.get(at..at.checked_add(LENGTH_BYTES)?)?;
            // Without compression it is -1.
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

fn corrupt(uri: &str, what: &str) -> Error {
    Error::data(format!("not an arrow file that can be read: {what}"))
        .with("file", uri)
        .hint("the file is truncated, corrupt or of another format: write or fetch it again")
}

/// Runs the decoder, whose checks of corrupt files are in part panics, and says which file it was.
fn guarded<T>(uri: &str, decode: impl FnOnce() -> std::result::Result<T, ArrowError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|e| corrupt(uri, &e.to_string())),
        Err(_) => Err(corrupt(uri, "the decoder gave up")),
    }
}
