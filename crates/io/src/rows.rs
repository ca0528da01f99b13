//! Copies rows out of whole columns.
//!
//! Rows of a fixed size without missing values are copied as bytes, with widths known at compile time for the common
//! ones; consecutive rows are a slice, without a copy; other columns use Arrow.

use arrow_array::{Array, ArrayRef, FixedSizeListArray, UInt64Array, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;
use forebay_core::Result;
use forebay_data::{Kind, Memory, tensor_values};

use crate::fail;

/// Returns rows `rows` of a column of `kind`. Every row must be below the column's length.
pub(crate) fn take(kind: &Kind, column: &ArrayRef, rows: &[usize]) -> Result<ArrayRef> {
    if let Some(width) = kind.row_bytes().filter(|&w| w > 0 && column.null_count() == 0) {
        let values = tensor_values(kind, column)?;
        let of_one = OfOne { values: &values, rows };
        return rebuild(column.data_type(), copy(&of_one, width, rows.len(), &Memory::default()), rows.len());
    }
    let places = UInt64Array::from_iter_values(rows.iter().map(|&r| r as u64));
    arrow_select::take::take(column, &places, None).map_err(fail::arrow)
}

/// Returns rows of several columns of `kind`. Each row is a pair: the number of its column, and its place there. Every
/// row must be below its column's length. Large columns of rows of a fixed size are in `memory`.
///
/// # Errors
/// Internal when Arrow refuses.
pub fn interleave(kind: &Kind, columns: &[&ArrayRef], rows: &[(usize, usize)], memory: &Memory) -> Result<ArrayRef> {
    let is_whole = columns.iter().all(|column| column.null_count() == 0);
    if let (Some(width), Some(first)) = (kind.row_bytes().filter(|&w| w > 0 && is_whole), columns.first()) {
        let values = columns.iter().map(|column| tensor_values(kind, column)).collect::<Result<Vec<_>>>()?;
        let values: Vec<&[u8]> = values.iter().map(Buffer::as_slice).collect();
        let of_many = OfMany { values: &values, rows };
        return rebuild(first.data_type(), copy(&of_many, width, rows.len(), memory), rows.len());
    }
    let columns: Vec<&dyn Array> = columns.iter().map(|column| column.as_ref()).collect();
    arrow_select::interleave::interleave(&columns, rows).map_err(fail::arrow)
}

/// Access to the bytes of rows.
trait Rows {
    /// Copies all rows, with a width known at compile time.
    fn copy_known<const W: usize>(&self, to: &mut [u8]);
    /// Copies all rows.
    fn copy_bytes(&self, width: usize, to: &mut [u8]);
}

struct OfOne<'a> {
    values: &'a [u8],
    rows: &'a [usize],
}

impl Rows for OfOne<'_> {
    fn copy_known<const W: usize>(&self, to: &mut [u8]) {
        let (values, _) = self.values.as_chunks::<W>();
        let (to, _) = to.as_chunks_mut::<W>();
        for (slot, &row) in to.iter_mut().zip(self.rows) {
            *slot = values[row];
        }
    }

    fn copy_bytes(&self, width: usize, to: &mut [u8]) {
        for (slot, &row) in to.chunks_exact_mut(width).zip(self.rows) {
            slot.copy_from_slice(&self.values[row * width..(row + 1) * width]);
        }
    }
}

struct OfMany<'a> {
    values: &'a [&'a [u8]],
    rows: &'a [(usize, usize)],
}

impl Rows for OfMany<'_> {
    fn copy_known<const W: usize>(&self, to: &mut [u8]) {
        let values: Vec<_> = self.values.iter().map(|values| values.as_chunks::<W>().0).collect();
        let (to, _) = to.as_chunks_mut::<W>();
        for (slot, &(column, row)) in to.iter_mut().zip(self.rows) {
            *slot = values[column][row];
        }
    }

    fn copy_bytes(&self, width: usize, to: &mut [u8]) {
        for (slot, &(column, row)) in to.chunks_exact_mut(width).zip(self.rows) {
            slot.copy_from_slice(&self.values[column][row * width..(row + 1) * width]);
        }
    }
}

fn copy(from: &impl Rows, width: usize, count: usize, memory: &Memory) -> Buffer {
    let mut out = memory.take_together(count * width);
    let to = out.as_mut_slice();
    match width {
        1 => from.copy_known::<1>(to),
        2 => from.copy_known::<2>(to),
        4 => from.copy_known::<4>(to),
        8 => from.copy_known::<8>(to),
        12 => from.copy_known::<12>(to),
        16 => from.copy_known::<16>(to),
        32 => from.copy_known::<32>(to),
        64 => from.copy_known::<64>(to),
        _ => from.copy_bytes(width, to),
    }
    out.into()
}

/// Makes a column of the bytes of its rows.
pub(crate) fn rebuild(ty: &DataType, values: Buffer, rows: usize) -> Result<ArrayRef> {
    let primitive = |ty: &DataType, len: usize| -> Result<ArrayRef> {
        let data = ArrayDataBuilder::new(ty.clone()).len(len).add_buffer(values).align_buffers(true);
        Ok(make_array(data.build().map_err(fail::arrow)?))
    };
    match ty {
        DataType::FixedSizeList(item, n) => {
            let values = primitive(item.data_type(), rows * *n as usize)?;
            let list = FixedSizeListArray::try_new_with_length(item.clone(), *n, values, None, rows);
            Ok(std::sync::Arc::new(list.map_err(fail::arrow)?))
        }
        ty => primitive(ty, rows),
    }
}
