//! Bounds the decoded size of columns of a row group, before memory is allocated for it.
//!
//! A page may encode "this value, a hundred million times" in a few bytes. The footer states the count of numbers. For
//! byte strings with a dictionary, the longest is looked up there; with prefix (delta) encoding, no string is longer
//! than its page. So no step of decoding makes more than is allowed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_schema::DataType;
use forebay_core::{Error, Result};
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::guarded;
use super::object::Ranges;
use crate::limits;

/// A step of decoding makes at most this part (1/n) of the limit of a column.
const STEP_PART: u64 = 4;

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Returns the bytes of one value, or `None` for byte strings.
fn width(column: &ColumnChunkMetaData) -> Option<u64> {
    Some(match column.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.column_descr().type_length()).unwrap_or(0),
        Type::BYTE_ARRAY => return None,
    })
}

/// Refuses a column that states a size above the memory limit.
pub(super) fn check(column: &ColumnChunkMetaData) -> Result<()> {
    let uncompressed = count(column.uncompressed_size());
    let values = width(column).map_or(0, |width| count(column.num_values()).saturating_mul(width));
    refuse(column.column_path().string(), uncompressed.max(values), allowed(column))
}

/// Returns the most bytes that a column may decode to.
pub(super) fn allowed(column: &ColumnChunkMetaData) -> u64 {
    limits::group_bytes_max(count(column.compressed_size()))
}

/// Refuses `bytes` of a column that are more than `max`.
pub(super) fn refuse(column: String, bytes: u64, max: u64) -> Result<()> {
    limits::group(&format!("column {column:?} of a row group"), bytes, max)
}

/// Returns how many rows may be decoded in one step, so that no encoding makes a step exceed its part of the limit.
///
/// # Errors
/// Data when a page cannot be read.
pub(super) fn rows_max(uri: &str, bytes: &Ranges, group: &RowGroupMetaData, leaves: &[usize]) -> Result<usize> {
    let mut most = usize::MAX;
    for column in leaves.iter().filter_map(|&leaf| group.columns().get(leaf)) {
        let (values, max) = (count(column.num_values()), allowed(column));
        if width(column).is_some() || values.saturating_mul(count(column.uncompressed_size())) <= max {
            continue;
        }
        let longest = guarded(uri, || longest(bytes, column, count(group.num_rows()) as usize))?;
        let per_row = values.div_ceil(count(group.num_rows()).max(1)).max(1);
        let rows = max / STEP_PART / longest.saturating_mul(per_row).max(1);
        most = most.min(usize::try_from(rows).unwrap_or(usize::MAX).max(1));
    }
    Ok(most)
}

/// Returns a bound for the lengths of a column's byte strings that are longer than their encoding in the page; 0 if
/// there are none.
fn longest(bytes: &Ranges, column: &ColumnChunkMetaData, rows: usize) -> parquet::errors::Result<u64> {
    let mut pages = SerializedPageReader::new(Arc::new(bytes.clone()), column, rows, None)?;
    let mut longest = 0;
    // Only this encoding requires each page to be decompressed twice.
    let has_prefixes = column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY);
    while let Some(page) = pages.get_next_page()? {
        longest = longest.max(match page {
            Page::DictionaryPage { buf, .. } => longest_of(&buf),
            page if page.encoding() == Encoding::DELTA_BYTE_ARRAY => page.buffer().len() as u64,
            _ => 0,
        });
        if !has_prefixes {
            break;
        }
    }
    Ok(longest)
}

/// Returns the length of the longest byte string of a dictionary.
fn longest_of(dictionary: &[u8]) -> u64 {
    let (mut longest, mut rest) = (0, dictionary);
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len);
        longest = longest.max(len.into());
        rest = after.get(len as usize..).unwrap_or(&[]);
    }
    longest
}

/// Adds up the decoded bytes of a row group.
#[derive(Debug)]
pub(super) struct Total {
    bytes: u64,
    max: u64,
}

impl Total {
    /// Starts at zero; the limit is the sum of the limits of these columns.
    pub(super) fn new(group: &RowGroupMetaData, leaves: &[usize]) -> Self {
        let columns = leaves.iter().filter_map(|&leaf| group.columns().get(leaf));
        Self { bytes: 0, max: columns.map(allowed).fold(0, u64::saturating_add) }
    }

    /// Adds a batch.
    ///
    /// # Errors
    /// Exhausted when the sum exceeds the limit.
    pub(super) fn add(&mut self, batch: &arrow_array::RecordBatch) -> Result<(), Error> {
        self.bytes = batch.columns().iter().map(unfolded_bytes).fold(self.bytes, u64::saturating_add);
        let names: Vec<_> = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        refuse(names.join(", "), self.bytes, self.max)
    }
}

/// Returns the bytes of a column's values, where repeated values count each time: batches share a dictionary, and views
/// a buffer.
fn unfolded_bytes(column: &ArrayRef) -> u64 {
    let taken = |array: &dyn Array| array.to_data().get_slice_memory_size().unwrap_or(0) as u64;
    let views = |views: &[u128]| views.iter().map(|view| u64::from(*view as u32)).sum::<u64>();
    match column.data_type() {
        DataType::Utf8View => 16 * column.len() as u64 + views(column.as_string_view().views()),
        DataType::BinaryView => 16 * column.len() as u64 + views(column.as_binary_view().views()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let values = dictionary.values();
            let lengths: Vec<u64> = match values.data_type() {
                DataType::Utf8 => lengths(values.as_string::<i32>().value_offsets()),
                DataType::LargeUtf8 => lengths(values.as_string::<i64>().value_offsets()),
                DataType::Binary => lengths(values.as_binary::<i32>().value_offsets()),
                DataType::LargeBinary => lengths(values.as_binary::<i64>().value_offsets()),
                _ => vec![taken(values) / values.len().max(1) as u64; values.len()],
            };
            dictionary.normalized_keys().iter().map(|key| lengths.get(*key).copied().unwrap_or(0)).sum()
        }
        _ => taken(column),
    }
}

fn lengths<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]).as_usize() as u64).collect()
}
