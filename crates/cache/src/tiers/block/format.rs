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
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, UInt64Array};
use arrow_buffer::Buffer;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use forebay_core::{Error, Result, VERSION};
use forebay_data::{Field, Kind, Schema};

use crate::key::{PrefixKey, RowKey};
use crate::rows::table::Table;
use crate::tiers::block::layout::{Layout, layout};
use crate::tiers::block::read_at::{ReadAt, Trouble, broken, bytes};
use crate::version::FORMAT;

/// The most bytes of a footer, or of the header of a message. A thousand columns take a tenth.
pub(super) const HEAD_BYTES_MAX: u64 = 16 << 20;
/// The end of an Arrow file: the length of its footer and a magic word.
const TAIL_BYTES: u64 = 10;
/// Optional in a block.
const COST: &str = "forebay.picos_per_byte";

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
    pub(super) fn fields(&self) -> &[Field] {
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

#[cfg(test)]
mod tests {
    use forebay_data::DType;

    use super::*;
    use crate::key::FileKey;
    use crate::rows::table::Part;
    use crate::tiers::block::check::check;

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
    fn a_wrong_byte_gives_no_other_row() {
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
