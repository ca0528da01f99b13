//! Lengths of texts: bytes of a byte string, characters (Unicode scalar values, as Python's `len`) of a string.

use arrow_array::{Array, LargeBinaryArray, LargeStringArray};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;

use super::shape::{Layout, Numbers};
use super::value::Value;

/// Returns the length of each text as int64.
///
/// # Errors
/// Invalid for numbers.
pub(super) fn len(value: &Value, rows: usize) -> Result<Value> {
    let column = match value {
        Value::Word(word) => return Ok(Value::Numbers(Numbers::once(DType::Int64, word.chars().count() as i64))),
        Value::Text(column) => column,
        _ => return Err(Error::invalid("a number has no length")),
    };
    let lengths: Vec<i64> = if let Some(strings) = column.as_any().downcast_ref::<LargeStringArray>() {
        (0..rows).map(|i| strings.value(i).chars().count() as i64).collect()
    } else if let Some(binary) = column.as_any().downcast_ref::<LargeBinaryArray>() {
        binary.offsets().windows(2).map(|w| w[1] - w[0]).collect()
    } else {
        return Err(Error::internal("a text is a string or bytes"));
    };
    let (values, nulls) = (Buffer::from_vec(lengths), column.nulls().cloned());
    Ok(Value::Numbers(Numbers { dtype: DType::Int64, values, nulls, layout: Layout::Rows }))
}
