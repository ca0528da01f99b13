//! A block as bytes: an Arrow IPC file with one record batch, which any Arrow library can open.
//!
//! | columns | |
//! |---|---|
//! | the prefix's | as everywhere; none in a block of rows that a filter removed |
//! | `__file` | 16 bytes: the version of a file |
//! | `__row` | `uint64`: the row in it |
//! | `__sum` | `uint64`: xxh3 of the row and of its key (see [`Table::sum`]) |
//!
//! The metadata of the schema describes the block (`forebay.*`). Nothing is compressed (`bench/compression.py` measures
//! the gain), so that single rows can be read: [`Layout`], a few bytes for each row, has their places.
//!
//! Invariants: reading arbitrary bytes neither panics nor takes more memory than they justify. A row that was read has
//! the sum that it was written with. The version is [`FORMAT`]: a change of the layout, or of a sum, requires another
//! version.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, UInt64Array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use forebay_core::{Error, Result, VERSION};
use forebay_data::{DType, Field, Kind, Schema};

use crate::FORMAT;
use crate::key::{FileKey, PrefixKey, RowKey};
use crate::rows::table::{Shape, Table, shapes};

/// The most bytes of a footer, or of the header of a message. A thousand columns take a tenth.
const HEAD_BYTES_MAX: u64 = 16 << 20;
/// The end of an Arrow file: the length of its footer and a magic word.
const TAIL_BYTES: u64 = 10;
/// Optional in a block.
const COST: &str = "forebay.picos_per_byte";

/// A source of bytes.
pub(crate) trait ReadAt {
    /// Fills `to` with the bytes at `at`.
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()>;
    /// Returns its length.
    fn len(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(to, at)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for [u8] {
    fn fill(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..at.checked_add(to.len())?));
        to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

/// The reason why a block cannot be read.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The file does not exist: a process deleted it.
    Gone,
    /// A later read may succeed: this process lacks a resource.
    Later(io::Error),
    /// Another version wrote it, which this one does not read.
    OtherFormat(String),
    /// The block's bytes changed after they were written.
    Broken(String),
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        use io::ErrorKind as Io;
        /// The errors of too many open files, of this process or of the system.
        const NO_DESCRIPTOR: [i32; 2] = [24, 23];
        match e.kind() {
            Io::NotFound => Trouble::Gone,
            Io::PermissionDenied | Io::OutOfMemory | Io::Interrupted | Io::WouldBlock | Io::StaleNetworkFileHandle => {
                Trouble::Later(e)
            }
            _ if e.raw_os_error().is_some_and(|code| NO_DESCRIPTOR.contains(&code)) => Trouble::Later(e),
            _ => Trouble::Broken(e.to_string()),
        }
    }
}

fn broken(what: &str) -> Trouble {
    Trouble::Broken(what.to_owned())
}

/// The header of a block: its prefix, and the kind of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) prefix: PrefixKey,
    pub(crate) what: String,
    /// The columns of the prefix.
    pub(crate) schema: Schema,
    /// A filter removed the rows: there are no columns.
    pub(crate) filtered_out: bool,
    /// The picoseconds that computing a byte of the prefix took, if known: the process that wrote the block may not
    /// have computed a row.
    pub(crate) picos_per_byte: Option<u64>,
}

impl BlockHeader {
    /// Returns the columns that the block has.
    fn fields(&self) -> &[Field] {
        if self.filtered_out { &[] } else { self.schema.fields() }
    }

    fn metadata(&self, version: &str) -> Result<HashMap<String, String>> {
        let schema = serde_json::to_string(&self.schema).map_err(|e| Error::internal(format!("a schema: {e}")))?;
        let entries = [
            ("forebay.format", FORMAT.to_string()),
            ("forebay.version", version.to_owned()),
            ("forebay.prefix", self.prefix.to_string()),
            ("forebay.what", self.what.clone()),
            ("forebay.schema", schema),
            ("forebay.rows", if self.filtered_out { "without" } else { "computed" }.to_owned()),
        ];
        let cost = self.picos_per_byte.map(|cost| (COST, cost.to_string()));
        Ok(entries.into_iter().chain(cost).map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

/// Encodes a block. `table` has the rows of `keys`; for rows that a filter removed, it has no parts.
///
/// # Errors
/// Exhausted when a column would pass 2^31 numbers; Internal when Arrow returns an error.
pub(crate) fn encode(header: &BlockHeader, table: &Table, keys: &[RowKey]) -> Result<Vec<u8>> {
    let arrow = |e| Error::internal(format!("arrow: {e}"));
    let schema = Schema::new(header.fields().to_vec())?;
    let mut columns = table.columns(&schema)?;
    let files = FixedSizeBinaryArray::try_from_iter(keys.iter().map(|key| key.file.0)).map_err(arrow)?;
    let rows = UInt64Array::from_iter_values(keys.iter().map(|key| key.row));
    let sums = UInt64Array::from_iter_values(keys.iter().enumerate().map(|(row, key)| table.sum(key, row)));
    columns.extend([Arc::new(files) as ArrayRef, Arc::new(rows), Arc::new(sums)]);
    let mut fields: Vec<ArrowField> = schema.fields().iter().map(Field::arrow).collect();
    fields.push(ArrowField::new("__file", DataType::FixedSizeBinary(16), false));
    fields.extend(["__row", "__sum"].map(|name| ArrowField::new(name, DataType::UInt64, false)));
    let schema = Arc::new(ArrowSchema::new_with_metadata(fields, header.metadata(VERSION)?));
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(arrow)?;
    let mut writer = FileWriter::try_new(Vec::with_capacity(table.bytes() + (64 << 10)), &schema).map_err(arrow)?;
    writer.write(&batch).map_err(arrow)?;
    writer.into_inner().map_err(arrow)
}

/// The place of one part of all rows in a block.
#[derive(Debug, Clone)]
pub(crate) enum StoredColumn {
    /// Row `i` has `width` bytes from `at + i * width` on.
    Even { width: usize, at: u64 },
    /// Row `i` has the bytes from `at + starts[i]` to `at + starts[i + 1]`.
    Any { starts: Arc<[i64]>, at: u64 },
    /// Whether each row has a value; already read.
    There(Arc<[u8]>),
}

/// The places of the rows of a block.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) keys: Vec<RowKey>,
    pub(crate) sums: Arc<[u64]>,
    pub(crate) parts: Vec<StoredColumn>,
}

impl Layout {
    /// Returns the bytes of a row, without its validity bytes.
    pub(crate) fn row_bytes(&self, row: usize) -> usize {
        let part = |part: &StoredColumn| match part {
            StoredColumn::Even { width, .. } => *width,
            StoredColumn::Any { starts, .. } => (starts[row + 1] - starts[row]) as usize,
            StoredColumn::There(_) => 0,
        };
        self.parts.iter().map(part).sum()
    }

    /// Returns how many rows from `first` on have about `bytes` bytes: at least one, if there is one.
    pub(crate) fn step(&self, first: usize, bytes: usize) -> usize {
        let even: usize =
            self.parts.iter().map(|part| if let StoredColumn::Even { width, .. } = part { *width } else { 1 }).sum();
        let any = |row: usize| {
            let part = |part: &StoredColumn| match part {
                StoredColumn::Any { starts, .. } => (starts[row + 1] - starts[first]) as usize,
                _ => 0,
            };
            self.parts.iter().map(part).sum::<usize>()
        };
        let left = self.keys.len() - first;
        let fits = (1..=left).take_while(|n| n * even + any(first + n - 1) <= bytes).count();
        fits.clamp(left.min(1), left)
    }
}

/// Reads the header of a block and the layout of its rows, but not the rows.
pub(crate) fn open(file: &(impl ReadAt + ?Sized)) -> Result<(BlockHeader, Layout), Trouble> {
    let len = file.len()?;
    let footer = footer(file, len)?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| Trouble::Broken(e.to_string()))?;
    let header = header(&footer)?;
    let batches = footer.recordBatches().filter(|b| b.len() == 1).ok_or_else(|| broken("not one record batch"))?;
    let block = batches.get(0);
    let layout = layout(file, len, &header, block.offset(), block.metaDataLength(), block.bodyLength())?;
    Ok((header, layout))
}

/// Reads bytes, after checking `len` against the file, before memory is allocated for them.
fn bytes(file: &(impl ReadAt + ?Sized), at: u64, len: u64) -> Result<Buffer, Trouble> {
    let mut bytes = MutableBuffer::from_len_zeroed(len as usize);
    file.fill(bytes.as_slice_mut(), at)?;
    Ok(bytes.into())
}

fn footer(file: &(impl ReadAt + ?Sized), len: u64) -> Result<Buffer, Trouble> {
    let tail_at = len.checked_sub(TAIL_BYTES).ok_or_else(|| broken("too short"))?;
    let mut tail = [0; TAIL_BYTES as usize];
    file.fill(&mut tail, tail_at)?;
    let footer = arrow_ipc::reader::read_footer_length(tail).map_err(|e| Trouble::Broken(e.to_string()))? as u64;
    let at = tail_at.checked_sub(footer).filter(|_| footer <= HEAD_BYTES_MAX);
    bytes(file, at.ok_or_else(|| broken("its footer is longer than it"))?, footer)
}

fn header(footer: &arrow_ipc::Footer<'_>) -> Result<BlockHeader, Trouble> {
    let metadata = footer.schema().and_then(|schema| schema.custom_metadata());
    let get = |name: &str| {
        let mut entries = metadata.iter().flat_map(|entries| entries.iter());
        let entry = entries.find(|entry| entry.key() == Some(name));
        entry.and_then(|entry| entry.value()).ok_or_else(|| Trouble::Broken(format!("it lacks {name}")))
    };
    let format = get("forebay.format")?;
    if format != FORMAT.to_string() {
        return Err(Trouble::OtherFormat(format.to_owned()));
    }
    let schema: Schema = serde_json::from_str(get("forebay.schema")?).map_err(|e| Trouble::Broken(e.to_string()))?;
    Ok(BlockHeader {
        prefix: PrefixKey::parse(get("forebay.prefix")?).map_err(|e| Trouble::Broken(e.to_string()))?,
        what: get("forebay.what")?.to_owned(),
        schema: checked(schema)?,
        filtered_out: get("forebay.rows")? == "without",
        picos_per_byte: get(COST).ok().and_then(|cost| cost.parse().ok()),
    })
}

/// The most bytes of a row of fixed size, in a schema from an untrusted source.
const ROW_BYTES_MAX: usize = 1 << 31;

/// Checks that the products of the shapes in a schema fit into a number.
fn checked(schema: Schema) -> Result<Schema, Trouble> {
    let sane = |field: &Field| match &field.kind {
        Kind::Tensor { dtype, shape } => {
            let mut known = shape.iter().map(|d| d.unwrap_or(1).max(1));
            let bytes = known.try_fold(dtype.size(), usize::checked_mul);
            !shape.is_empty() && bytes.is_some_and(|bytes| bytes <= ROW_BYTES_MAX)
        }
        _ => true,
    };
    let sane = schema.fields().iter().all(sane);
    sane.then_some(schema).ok_or_else(|| broken("a schema with tensors larger than memory"))
}

/// The buffers of a record batch, in order.
struct Buffers<'a, F: ?Sized> {
    file: &'a F,
    /// The offset and the length of each; checked against the file.
    list: std::vec::IntoIter<(u64, u64)>,
    rows: u64,
}

fn layout<F: ReadAt + ?Sized>(
    file: &F,
    len: u64,
    header: &BlockHeader,
    at: i64,
    head_len: i32,
    body_len: i64,
) -> Result<Layout, Trouble> {
    let lies = || broken("a record batch that is not in it");
    let [at, head_len, body_len] =
        [u64::try_from(at), u64::try_from(head_len), u64::try_from(body_len)].map(|n| n.map_err(|_| lies()));
    let (at, head_len, body_len) = (at?, head_len?, body_len?);
    let body = at.checked_add(head_len).filter(|_| head_len <= HEAD_BYTES_MAX).ok_or_else(lies)?;
    if body.checked_add(body_len).is_none_or(|end| end > len) || head_len < 8 {
        return Err(lies());
    }
    // A marker and the length come before the message.
    let message = bytes(file, at + 8, head_len - 8)?;
    let message = arrow_ipc::root_as_message(&message).map_err(|e| Trouble::Broken(e.to_string()))?;
    let batch = message.header_as_record_batch().ok_or_else(|| broken("no record batch"))?;
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err(broken("compressed"));
    }
    let rows = u32::try_from(batch.length()).ok().filter(|&rows| rows > 0).ok_or_else(|| broken("no rows"))?;
    // Buffers must not overlap, so that few bytes cannot stand for many columns.
    let mut free = 0;
    let mut place = |buffer: &arrow_ipc::Buffer| {
        let (from, len) = (u64::try_from(buffer.offset()).ok()?, u64::try_from(buffer.length()).ok()?);
        let end = from.checked_add(len).filter(|&end| end <= body_len && from >= free)?;
        free = end;
        Some((body + from, len))
    };
    let list: Option<Vec<(u64, u64)>> = batch.buffers().iter().flat_map(|b| b.iter()).map(&mut place).collect();
    let mut buffers = Buffers { file, list: list.ok_or_else(lies)?.into_iter(), rows: rows.into() };
    let mut parts = Vec::new();
    for field in header.fields() {
        buffers.column(field, &mut parts)?;
    }
    let layout = buffers.keys(parts)?;
    if buffers.list.next().is_some() {
        return Err(broken("more columns than its schema"));
    }
    Ok(layout)
}

impl<F: ReadAt + ?Sized> Buffers<'_, F> {
    fn next(&mut self) -> Result<(u64, u64), Trouble> {
        self.list.next().ok_or_else(|| broken("fewer columns than its schema"))
    }

    /// Returns the offset of the next buffer, which has `width` bytes for each of `rows`.
    fn numbers(&mut self, rows: u64, width: usize) -> Result<u64, Trouble> {
        let (at, len) = self.next()?;
        let fits = rows.checked_mul(width as u64).is_some_and(|bytes| bytes <= len);
        fits.then_some(at).ok_or_else(|| broken("a column that is too short"))
    }

    /// Finds a column, in the order in which Arrow writes its buffers.
    fn column(&mut self, field: &Field, parts: &mut Vec<StoredColumn>) -> Result<(), Trouble> {
        let there = self.next()?;
        let rows = self.rows;
        match (&field.kind, shapes(field)[0]) {
            (Kind::Scalar { .. }, Shape::Even(width)) => {
                parts.push(StoredColumn::Even { width, at: self.numbers(rows, width)? });
            }
            (_, Shape::Even(width)) => {
                self.next()?;
                parts.push(StoredColumn::Even { width, at: self.numbers(rows, width)? });
            }
            (Kind::Tensor { dtype, shape }, Shape::Any) => {
                self.next()?;
                let ends = self.offsets::<4>(dtype.size())?;
                self.next()?;
                parts.push(self.runs(ends)?);
                self.next()?;
                self.next()?;
                let width = 4 * shape.len();
                parts.push(StoredColumn::Even { width, at: self.numbers(rows, width)? });
            }
            (_, Shape::Any) => {
                let ends = self.offsets::<8>(1)?;
                parts.push(self.runs(ends)?);
            }
        }
        if field.nullable {
            parts.push(StoredColumn::There(self.there(there)?));
        }
        Ok(())
    }

    /// Reads the offset of each row, as numbers of `N` bytes that count `size` bytes each.
    fn offsets<const N: usize>(&mut self, size: usize) -> Result<Arc<[i64]>, Trouble> {
        let at = self.numbers(self.rows + 1, N)?;
        let bytes = bytes(self.file, at, (self.rows + 1) * N as u64)?;
        let number = |piece: &[u8]| {
            let mut word = [0; 8];
            word[..N].copy_from_slice(piece);
            // A negative number of four bytes becomes a number that exceeds every buffer.
            i64::from_le_bytes(word).checked_mul(size as i64)
        };
        let starts: Option<Arc<[i64]>> = bytes.chunks_exact(N).map(number).collect();
        let rising = |starts: &Arc<[i64]>| starts[0] >= 0 && starts.windows(2).all(|w| w[0] <= w[1]);
        starts.filter(rising).ok_or_else(|| broken("rows that end before they begin"))
    }

    fn runs(&mut self, starts: Arc<[i64]>) -> Result<StoredColumn, Trouble> {
        let (at, len) = self.next()?;
        let fits = starts.last().is_some_and(|&end| end as u64 <= len);
        fits.then_some(StoredColumn::Any { starts, at }).ok_or_else(|| broken("rows that end behind their column"))
    }

    /// Reads which rows have a value. Without a buffer, all have.
    fn there(&mut self, (at, len): (u64, u64)) -> Result<Arc<[u8]>, Trouble> {
        let rows = self.rows as usize;
        if len == 0 {
            return Ok(vec![1; rows].into());
        }
        if len < self.rows.div_ceil(8) {
            return Err(broken("a column that is too short"));
        }
        let bits = bytes(self.file, at, self.rows.div_ceil(8))?;
        Ok((0..rows).map(|row| bits[row / 8] >> (row % 8) & 1).collect())
    }

    fn keys(&mut self, parts: Vec<StoredColumn>) -> Result<Layout, Trouble> {
        let rows = self.rows;
        let mut column = |width: usize| {
            self.next()?;
            let at = self.numbers(rows, width)?;
            bytes(self.file, at, rows * width as u64)
        };
        let (files, numbers, sums) = (column(16)?, column(8)?, column(DType::Uint64.size())?);
        let word = |piece: &[u8]| piece.try_into().map_or(0, u64::from_le_bytes);
        let file = |piece: &[u8]| FileKey(piece.try_into().unwrap_or_default());
        let keys = files.chunks_exact(16).zip(numbers.chunks_exact(8));
        let keys = keys.map(|(f, row)| RowKey { file: file(f), row: word(row) }).collect();
        Ok(Layout { keys, sums: sums.chunks_exact(8).map(word).collect(), parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::check;
    use crate::rows::table::Part;

    /// A block of three rows, with its header.
    fn block() -> (BlockHeader, Table, Vec<RowKey>) {
        let tensor = Kind::Tensor { dtype: DType::Uint8, shape: vec![None, Some(2)] };
        let text = Field { nullable: true, ..Field::new("text", Kind::Utf8) };
        let fields = vec![Field::new("x", Kind::fixed(DType::Int16, &[2])), text, Field::new("image", tensor)];
        let schema = Schema::new(fields).expect("names differ");
        let even = |width, bytes: &[u8]| Part::Even { width, bytes: Buffer::from(bytes) };
        let any = |starts: [i64; 4], bytes: &[u8]| Part::Any { starts: starts.into(), bytes: Buffer::from(bytes) };
        let shape: Vec<u8> = [1i32, 2, 0, 2, 2, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
        let parts = vec![
            even(4, &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]),
            any([0, 3, 3, 3], "\u{fc}x".as_bytes()),
            even(1, &[1, 1, 0]),
            any([0, 2, 2, 6], &[9, 8, 7, 6, 5, 4]),
            even(8, &shape),
        ];
        let key = |row| RowKey { file: FileKey::of("file:///a", 12, "etag"), row };
        let (prefix, what) = (PrefixKey([7; 32]), "decode of /a".to_owned());
        (
            BlockHeader { prefix, what, schema, filtered_out: false, picos_per_byte: Some(1 << 40) },
            Table::new(parts, 3),
            [4, 0, 1 << 39].map(key).to_vec(),
        )
    }

    #[test]
    fn whatever_byte_is_wrong_no_other_row_comes_of_it() {
        let (header, table, keys) = block();
        let bytes = encode(&header, &table, &keys).expect("a block");
        let expected: Vec<(RowKey, u64)> = keys.iter().enumerate().map(|(i, key)| (*key, table.sum(key, i))).collect();
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut bytes = bytes.clone();
                bytes[at] ^= bit;
                let Ok((read, layout)) = open(&bytes[..]) else { continue };
                if read == header && check(&bytes[..], &read, &layout).is_ok() {
                    // A damaged block may state fewer rows.
                    let mut rows = layout.keys.into_iter().zip(layout.sums.iter().copied());
                    assert!(rows.all(|row| expected.contains(&row)), "byte {at}");
                }
            }
            let _ = open(&bytes[..at]).map(|(header, layout)| check(&bytes[..at], &header, &layout));
        }
    }

    #[test]
    fn rows_that_a_filter_removed_have_no_columns() {
        let (header, _, keys) = block();
        let header = BlockHeader { filtered_out: true, ..header };
        let bytes = encode(&header, &Table::new(Vec::new(), 3), &keys).expect("a block");
        let (read, layout) = open(&bytes[..]).expect("a block");
        assert_eq!((&read, layout.parts.len(), &layout.keys), (&header, 0, &keys));
        assert_eq!(check(&bytes[..], &read, &layout).expect("its sums"), 3);
    }
}
