//! An Arrow file or stream, with the places of its record batches.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, MetadataVersion, root_as_footer};
use arrow_schema::{ArrowError, Schema as ArrowSchema, SchemaRef};
use forebay_core::{Error, Result};
use forebay_data::Field;

use super::messages::{Batches, HEAD_BYTES_MAX, check_sizes, corrupt, guarded, message, read, rows_of};
use super::schema::{Found, found};
use super::stream::{self, Stream};
use crate::formats::grouped::{DecodeOptions, Grouped};
use crate::index::table::Table;
use crate::store::{Ahead, Object};

/// The first bytes of a file that has a footer.
const MAGIC: &[u8] = b"ARROW1";
/// The last bytes of such a file: the length of its footer, and the magic word.
const TAIL_BYTES: u64 = 10;

/// The schema of a file, read before its rows.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) schema: SchemaRef,
    version: MetadataVersion,
}

impl Head {
    /// Creates it from the schema of a footer or of a stream's first message.
    pub(super) fn new(
        schema: Option<arrow_ipc::Schema<'_>>,
        version: MetadataVersion,
    ) -> std::result::Result<Self, ArrowError> {
        let schema = schema.ok_or_else(|| ArrowError::ParseError("no schema".to_owned()))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(ArrowError::ParseError("another byte order than this machine's".to_owned()));
        }
        Ok(Self { schema: try_fb_to_schema(schema)?.into(), version })
    }
}

/// The places of the record batches.
#[derive(Debug)]
enum Place {
    Blocks(Vec<Block>),
    Stream(Stream),
}

/// A file, of which some columns are read.
#[derive(Debug)]
pub(crate) struct File {
    object: Arc<Object>,
    head: Head,
    place: Place,
    /// The columns that are decoded.
    projection: Vec<usize>,
    /// The decoder, and how many dictionaries it has read. A stream may have dictionaries between its record batches.
    /// In that case this is the decoder for the record batch that was read last.
    decoder: Mutex<Option<(usize, Arc<FileDecoder>)>>,
}

/// Returns the columns of a file as they are read, with their properties.
///
/// # Errors
/// Data when it is not an Arrow file.
pub(crate) fn columns_of(object: &Object) -> Result<Vec<Found>> {
    let head = if has_footer(object)? { footer(object)?.0 } else { stream::head(object)?.0 };
    Ok(found(&head.schema))
}

/// Returns the places of the record batches of a file.
///
/// # Errors
/// Data when it is not an Arrow file, or a record batch cannot be found.
pub(crate) fn table(object: Arc<Object>, stop: &AtomicBool) -> Result<Table> {
    if !has_footer(&object)? {
        return stream::walk(&object, stop).map(Table::Messages);
    }
    let (head, blocks, _) = footer(&object)?;
    if blocks.is_empty() {
        check_empty(&object)?;
    }
    let columns = head.schema.fields().len();
    let rows = |(group, block): (usize, &Block)| {
        let head = read(&object, block, false)?;
        let rows = guarded(object.uri(), || {
            let message = message(&head)?;
            let batch = message.header_as_record_batch();
            rows_of(batch.ok_or_else(|| ArrowError::ParseError("no record batch".to_owned()))?, columns)
        });
        rows.map_err(|e| e.with("record batch", group))
    };
    blocks.iter().enumerate().map(rows).collect::<Result<_>>().map(Table::Groups)
}

/// Refuses a file that has a record batch although its footer names none. In an empty file, the mark of the end follows
/// the schema.
fn check_empty(object: &Object) -> Result<()> {
    let begin = MAGIC.len().next_multiple_of(8) as u64;
    match stream::has_batches(object, begin)? {
        true => Err(corrupt(object.uri(), "its footer names no record batch, and one is there")),
        false => Ok(()),
    }
}

/// Says whether a file begins like one with a footer. A stream does not.
fn has_footer(object: &Object) -> Result<bool> {
    let mut magic = [0; MAGIC.len()];
    if object.size() < magic.len() as u64 {
        return Ok(false);
    }
    object.read_at(0, &mut magic)?;
    Ok(magic == MAGIC)
}

/// Reads a footer: the schema, and where record batches and dictionaries are.
fn footer(object: &Object) -> Result<(Head, Vec<Block>, Vec<Block>)> {
    let (uri, size) = (object.uri(), object.size());
    let not_there = || {
        Error::data("not an arrow file that can be read: it does not end as one")
            .with("file", uri)
            .hint("the file is truncated or corrupt: write or fetch it again")
    };
    let end = size.checked_sub(TAIL_BYTES).ok_or_else(not_there)?;
    let mut tail = [0; TAIL_BYTES as usize];
    object.read_at(end, &mut tail)?;
    let len = read_footer_length(tail).map_err(|_| not_there())? as u64;
    let start = end.checked_sub(len).filter(|_| len <= HEAD_BYTES_MAX).ok_or_else(not_there)?;
    let mut bytes = vec![0; len as usize];
    object.read_at(start, &mut bytes)?;
    guarded(uri, || {
        let footer = root_as_footer(&bytes).map_err(|e| ArrowError::ParseError(e.to_string()))?;
        let head = Head::new(footer.schema(), footer.version())?;
        let batches = footer.recordBatches().into_iter().flatten().copied().collect();
        Ok((head, batches, footer.dictionaries().into_iter().flatten().copied().collect()))
    })
}

impl File {
    /// Returns the decoder for record batches after the first `count` dictionaries. `dictionaries` reads the
    /// dictionaries that are in force there.
    fn decoder(
        &self,
        count: usize,
        dictionaries: impl FnOnce() -> Result<Vec<(Block, Buffer)>>,
    ) -> Result<Arc<FileDecoder>> {
        let kept = || self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, decoder)) = &*kept()
            && *of == count
        {
            return Ok(decoder.clone());
        }
        let uri = self.object.uri();
        let mut decoder = FileDecoder::new(self.head.schema.clone(), self.head.version);
        for (block, bytes) in dictionaries()? {
            check_sizes(uri, &bytes, &block)?;
            guarded(uri, || decoder.read_dictionary(&block, &bytes))?;
        }
        let decoder = Arc::new(decoder.with_projection(self.projection.clone()));
        *kept() = Some((count, decoder.clone()));
        Ok(decoder)
    }

    /// Decodes a record batch.
    ///
    /// # Errors
    /// Data when it cannot be read; Exhausted when it states a size above the memory limit.
    fn batch(&self, group: usize) -> Result<RecordBatch> {
        let uri = self.object.uri();
        let gone = || corrupt(uri, "a record batch is not there");
        let decode = || {
            let (block, bytes, decoder) = match &self.place {
                Place::Blocks(blocks) => {
                    let block = *blocks.get(group).ok_or_else(gone)?;
                    let bytes = read(&self.object, &block, true)?;
                    (block, bytes, self.decoder(0, || Err(gone()))?)
                }
                Place::Stream(stream) => {
                    let message = stream.batch(group).ok_or_else(gone)?;
                    let (block, bytes) = stream.read(&self.object, message)?;
                    let (count, needed) = stream.dictionaries(message);
                    let read = || needed.into_iter().map(|message| stream.read(&self.object, message)).collect();
                    (block, bytes, self.decoder(count, read)?)
                }
            };
            check_sizes(uri, &bytes, &block)?;
            let batch = guarded(uri, || decoder.read_record_batch(&block, &bytes))?;
            batch.ok_or_else(|| corrupt(uri, "no record batch"))
        };
        decode().map_err(|e| e.with("record batch", group))
    }
}

impl Grouped for File {
    const GROUP: &'static str = "record batch";
    const BY_COLUMN: bool = false;
    type Batches = Batches;

    /// Reads also the dictionaries, if the file has a footer.
    fn open(object: Arc<Object>, table: Option<&Table>, wanted: &[Field]) -> Result<Self> {
        let (head, place, dictionaries) = match table {
            Some(Table::Messages(messages)) => {
                let (head, _) = stream::head(&object)?;
                let stream = Stream::new(&object, messages.clone())?;
                (head, Place::Stream(stream), None)
            }
            _ => {
                let (head, batches, dictionaries) = footer(&object)?;
                (head, Place::Blocks(batches), Some(dictionaries))
            }
        };
        let is_of =
            |column: &str, name: &str| name == column || name.strip_prefix(column).is_some_and(|r| r.starts_with('.'));
        let columns = head.schema.fields().iter().enumerate();
        let projection = columns.filter(|(_, column)| wanted.iter().any(|f| is_of(column.name(), &f.name)));
        let projection = projection.map(|(place, _)| place).collect();
        let file = Self { object, head, place, projection, decoder: Mutex::default() };
        if let Some(dictionaries) = dictionaries {
            let read = |block: Block| read(&file.object, &block, true).map(|bytes| (block, bytes));
            file.decoder(0, || dictionaries.into_iter().map(read).collect())?;
        }
        Ok(file)
    }

    fn schema(&self) -> &ArrowSchema {
        &self.head.schema
    }

    fn request(&self, _group: usize, _fields: &[Field]) -> Option<Ahead> {
        None
    }

    fn batches(&self, group: usize, options: DecodeOptions<'_>) -> Result<Batches> {
        Ok(Batches { batch: self.batch(group)?, row: 0, rows: options.rows.max(1) })
    }
}
