//! Takes rows out of whole columns.
//!
//! Rows of a known size without missing values are copied by their bytes, at a width that the compiler knows for the
//! common ones; consecutive rows are a slice, without a copy; the rest goes through Arrow.

use arrow_array::{Array, ArrayRef, FixedSizeListArray, UInt64Array, make_array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;
use forebay_core::Result;
use forebay_data::{Kind, tensor_values};

use crate::fail;

/// Returns rows `rows` of a column of `kind`. Every row must be below the column's length.
pub(crate) fn take(kind: &Kind, column: &ArrayRef, rows: &[usize]) -> Result<ArrayRef> {
    if let Some(width) = kind.row_bytes().filter(|&w| w > 0 && column.null_count() == 0) {
        let values = tensor_values(kind, column)?;
        return rebuild(column.data_type(), copy(&values, width, rows), rows.len());
    }
    let places = UInt64Array::from_iter_values(rows.iter().map(|&r| r as u64));
    arrow_select::take::take(column, &places, None).map_err(fail::arrow)
}

fn copy(values: &[u8], width: usize, rows: &[usize]) -> Buffer {
    let mut out = MutableBuffer::from_len_zeroed(rows.len() * width);
    let to = out.as_slice_mut();
    match width {
        1 => known::<1>(values, rows, to),
        2 => known::<2>(values, rows, to),
        4 => known::<4>(values, rows, to),
        8 => known::<8>(values, rows, to),
        12 => known::<12>(values, rows, to),
        16 => known::<16>(values, rows, to),
        32 => known::<32>(values, rows, to),
        64 => known::<64>(values, rows, to),
        _ => {
            for (slot, &row) in to.chunks_exact_mut(width).zip(rows) {
                slot.copy_from_slice(&values[row * width..(row + 1) * width]);
            }
        }
    }
    out.into()
}

fn known<const W: usize>(values: &[u8], rows: &[usize], to: &mut [u8]) {
    let (values, _) = values.as_chunks::<W>();
    let (to, _) = to.as_chunks_mut::<W>();
    for (slot, &row) in to.iter_mut().zip(rows) {
        *slot = values[row];
    }
}

fn rebuild(ty: &DataType, values: Buffer, rows: usize) -> Result<ArrayRef> {
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
