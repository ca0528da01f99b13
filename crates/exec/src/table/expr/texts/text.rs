//! Lengths of lists (their first dimension) and of texts: bytes of a byte string, characters (Unicode scalar values,
//! like Python's `len`) of a string.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, LargeBinaryArray, LargeStringArray};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;

use super::text_lists;
use super::words::bytes_of;
use crate::table::expr::numbers::shape::{Layout, Numbers};
use crate::table::expr::value::Value;

/// Returns the length of each text, or list, as int64.
///
/// # Errors
/// Invalid for numbers.
pub(in crate::table::expr) fn len(value: &Value, rows: usize) -> Result<Value> {
    let column = match value {
        Value::Word(word) => return Ok(Value::Numbers(Numbers::once(DType::Int64, word.chars().count() as i64))),
        Value::Text(column) => column,
        Value::Texts(column) => return text_lists::len(column),
        Value::Numbers(numbers) => return lists(numbers, rows),
        _ => return Err(Error::invalid("a number has no length")),
    };
    let lengths: Vec<i64> = if let Some(strings) = column.as_any().downcast_ref::<LargeStringArray>() {
        match bytes_of(strings).is_ascii() {
            true => byte_lengths(strings.value_offsets()),
            false => (0..rows).map(|i| strings.value(i).chars().count() as i64).collect(),
        }
    } else if let Some(binary) = column.as_any().downcast_ref::<LargeBinaryArray>() {
        byte_lengths(binary.value_offsets())
    } else {
        return Err(Error::internal("a text is a string or bytes"));
    };
    let (values, nulls) = (Buffer::from_vec(lengths), column.nulls().cloned());
    Ok(Value::Numbers(Numbers { dtype: DType::Int64, values, nulls, layout: Layout::Rows }))
}

fn byte_lengths(offsets: &[i64]) -> Vec<i64> {
    offsets.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Returns the first dimension of each row.
fn lists(numbers: &Numbers, rows: usize) -> Result<Value> {
    let lengths: Vec<i64> = match &numbers.layout {
        Layout::Fixed(shape) => vec![shape.first().map_or(1, |&n| n as i64); rows],
        Layout::Variable { shapes, .. } => {
            let wrong = || Error::internal("the shapes of tensors are lists of int32");
            let shapes = shapes.as_fixed_size_list_opt().ok_or_else(wrong)?;
            let dims = shapes.values().as_primitive_opt::<Int32Type>().ok_or_else(wrong)?;
            (0..rows).map(|row| i64::from(dims.value(shapes.value_offset_at(row)))).collect()
        }
        Layout::Once | Layout::Rows => return Err(Error::invalid("a number has no length")),
    };
    let values = Buffer::from_vec(lengths);
    Ok(Value::Numbers(Numbers { dtype: DType::Int64, values, nulls: numbers.nulls.clone(), layout: Layout::Rows }))
}
