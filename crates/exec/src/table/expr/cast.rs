//! Casts to another dtype like NumPy's `astype`, with one defined result on every processor.
//!
//! | from, to | result |
//! |---|---|
//! | number → number | see [`super::numbers::convert`] |
//! | string, bytes → number | as written, ignoring spaces around it; other text is an error that quotes it |
//! | anything → string, bytes | see [`super::texts::cast_text`] |

use std::str::FromStr;

use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeStringArray};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::CastType;

use super::numbers::convert::convert;
use super::numbers::number::{Element, Number};
use super::numbers::shape::{Layout, Numbers};
use super::texts::cast_text;
use super::value::Value;

/// Casts a value.
///
/// # Errors
/// Data when a text is not a number that the dtype holds, or bytes are not UTF-8.
pub(super) fn cast(value: Value, to: CastType, rows: usize) -> Result<Value> {
    let dtype = match to {
        CastType::String => return cast_text::to_strings(value, rows),
        CastType::Bytes => return cast_text::to_bytes(value, rows),
        CastType::Number(dtype) => dtype,
    };
    Ok(Value::Numbers(match value {
        Value::Word(word) => Numbers { layout: Layout::Once, ..parse(&LargeStringArray::from(vec![word]), dtype)? },
        Value::Text(column) => match column.as_string_opt() {
            Some(strings) => parse(strings, dtype)?,
            None => parse(&cast_text::decode(column.as_binary())?, dtype)?,
        },
        other => convert(other.numbers()?, dtype),
    }))
}

fn parse(strings: &LargeStringArray, dtype: DType) -> Result<Numbers> {
    let values = match dtype {
        DType::Bool => parse_as(strings, dtype, |text| match text {
            "True" | "true" | "1" => Some(1i8),
            "False" | "false" | "0" => Some(0),
            _ => None,
        }),
        DType::Float16 => parse_as(strings, dtype, |t| f64::from_str(t).ok().map(Number::half)),
        DType::Int8 => parse_as(strings, dtype, |t| i8::from_str(t).ok()),
        DType::Int16 => parse_as(strings, dtype, |t| i16::from_str(t).ok()),
        DType::Int32 => parse_as(strings, dtype, |t| i32::from_str(t).ok()),
        DType::Int64 => parse_as(strings, dtype, |t| i64::from_str(t).ok()),
        DType::Uint8 => parse_as(strings, dtype, |t| u8::from_str(t).ok()),
        DType::Uint16 => parse_as(strings, dtype, |t| u16::from_str(t).ok()),
        DType::Uint32 => parse_as(strings, dtype, |t| u32::from_str(t).ok()),
        DType::Uint64 => parse_as(strings, dtype, |t| u64::from_str(t).ok()),
        DType::Float32 => parse_as(strings, dtype, |t| f32::from_str(t).ok()),
        DType::Float64 => parse_as(strings, dtype, |t| f64::from_str(t).ok()),
    }?;
    Ok(Numbers { dtype, values, nulls: strings.nulls().cloned(), layout: Layout::Rows })
}

fn parse_as<T: Element>(strings: &LargeStringArray, dtype: DType, read: impl Fn(&str) -> Option<T>) -> Result<Buffer> {
    let mut numbers = Vec::with_capacity(strings.len());
    for text in strings {
        let Some(text) = text else {
            numbers.push(T::default().store());
            continue;
        };
        let number = read(text.trim()).ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            Error::data(format!("cannot read {start:?} as {dtype}")).hint("filter such rows out before the cast")
        })?;
        numbers.push(number.store());
    }
    Ok(Buffer::from_vec(numbers))
}
