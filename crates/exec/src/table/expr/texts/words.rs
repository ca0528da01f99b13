//! Functions of texts with fixed arguments: Python's methods of `str`.
//!
//! Invariant: a missing row stays missing, and no function is computed for it.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, LargeBinaryType, LargeUtf8Type};
use arrow_array::{Array, GenericByteArray, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::Call;

use super::patterns;
use crate::table::expr::numbers::shape::{Layout, Numbers};
use crate::table::expr::value::{Value, arrow};

/// Returns the column of a text.
///
/// # Errors
/// Internal for bytes and numbers, which [`Call::kind`] refuses before.
pub(in crate::table::expr) fn strings(value: &Value, rows: usize) -> Result<LargeStringArray> {
    match value {
        Value::Word(word) => Ok(LargeStringArray::from_iter_values(std::iter::repeat_n(word, rows))),
        Value::Text(column) => {
            column.as_string_opt().cloned().ok_or_else(|| Error::internal("bytes where a string is expected"))
        }
        _ => Err(Error::internal("a number where a string is expected")),
    }
}

/// Joins two texts, or bytes: a row is missing where one of its sides is.
///
/// # Errors
/// Internal for anything else than two texts, or bytes on both sides.
pub(in crate::table::expr) fn join(a: &Value, b: &Value, rows: usize) -> Result<Value> {
    let column = |value: &Value| match value {
        Value::Text(column) => column.as_binary_opt::<i64>().cloned(),
        _ => None,
    };
    match (a, b) {
        (Value::Word(a), Value::Word(b)) => Ok(Value::Word(format!("{a}{b}"))),
        _ => match (column(a), column(b)) {
            (Some(a), Some(b)) => Ok(Value::Text(Arc::new(joined::<LargeBinaryType>(&a, &b)?))),
            _ => Ok(Value::Text(Arc::new(joined::<LargeUtf8Type>(&strings(a, rows)?, &strings(b, rows)?)?))),
        },
    }
}

fn joined<T: ByteArrayType<Offset = i64>>(
    a: &GenericByteArray<T>,
    b: &GenericByteArray<T>,
) -> Result<GenericByteArray<T>> {
    let nulls = NullBuffer::union(a.nulls(), b.nulls());
    let bytes =
        |x: &GenericByteArray<T>| x.value_offsets().last().unwrap_or(&0) - x.value_offsets().first().unwrap_or(&0);
    let mut values = Vec::with_capacity(usize::try_from(bytes(a) + bytes(b)).unwrap_or(0));
    let mut ends: Vec<i64> = Vec::with_capacity(a.len() + 1);
    ends.push(0);
    for row in 0..a.len() {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            values.extend_from_slice(a.value(row).as_ref());
            values.extend_from_slice(b.value(row).as_ref());
        }
        ends.push(values.len() as i64);
    }
    GenericByteArray::try_new(OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(values), nulls)
        .map_err(arrow)
}

/// Computes a function of texts.
///
/// # Errors
/// Data for a text that is no number, Internal for another function.
pub(in crate::table::expr) fn call(call: &Call, value: &Value, rows: usize) -> Result<Value> {
    let texts = strings(value, rows)?;
    match call {
        Call::Lower {} => cased(&texts, <[u8]>::make_ascii_lowercase, str::to_lowercase),
        Call::Upper {} => cased(&texts, <[u8]>::make_ascii_uppercase, str::to_uppercase),
        Call::Strip { chars: None } => made(&texts, |text| Some(text.trim_matches(is_space).into())),
        Call::Strip { chars: Some(chars) } => {
            made(&texts, |text| Some(text.trim_matches(|c| chars.contains(c)).into()))
        }
        Call::Substring { start, stop } => made(&texts, |text| Some(slice(text, *start, *stop).into())),
        Call::Replace { old, new } => made(&texts, |text| Some(text.replace(old, new).into())),
        Call::Split { separator, index } => {
            made(&texts, |text| part(text.split(separator.as_str()), *index).map(Into::into))
        }
        Call::Words { index: Some(index) } => made(&texts, |text| part(words(text), *index).map(Into::into)),
        Call::Contains { text } => told(&texts, |row| row.contains(text.as_str())),
        Call::StartsWith { text } => told(&texts, |row| row.starts_with(text.as_str())),
        Call::EndsWith { text } => told(&texts, |row| row.ends_with(text.as_str())),
        Call::ToInt { base } => numbers(&texts, *base),
        other => patterns::call(other, &texts),
    }
}

/// Returns the bytes from `start` to before `stop` of each row.
///
/// # Errors
/// Internal for a column that is not of bytes.
pub(in crate::table::expr) fn slice_bytes(column: &dyn Array, start: Option<i64>, stop: Option<i64>) -> Result<Value> {
    let bytes: &LargeBinaryArray =
        column.as_binary_opt().ok_or_else(|| Error::internal("bytes that are stored as something else"))?;
    let sliced = bytes.iter().map(|row| row.map(|row| &row[Call::bounds(start, stop, row.len())]));
    Ok(Value::Text(Arc::new(sliced.collect::<LargeBinaryArray>())))
}

/// Returns texts in another case. Where all of them are ASCII, and none is missing, their bytes are changed together.
fn cased(texts: &LargeStringArray, ascii: fn(&mut [u8]), any: fn(&str) -> String) -> Result<Value> {
    let bytes = bytes_of(texts);
    if texts.null_count() > 0 || !bytes.is_ascii() {
        return made(texts, |text| Some(any(text).into()));
    }
    let mut bytes = bytes.to_vec();
    ascii(&mut bytes);
    let first = texts.value_offsets()[0];
    let offsets = match first {
        0 => texts.offsets().clone(),
        _ => OffsetBuffer::new(texts.value_offsets().iter().map(|offset| offset - first).collect()),
    };
    let cased = LargeStringArray::try_new(offsets, Buffer::from_vec(bytes), None).map_err(arrow)?;
    Ok(Value::Text(Arc::new(cased)))
}

/// Returns the bytes of all texts, one after another.
pub(super) fn bytes_of(texts: &LargeStringArray) -> &[u8] {
    let offsets = texts.value_offsets();
    &texts.value_data()[offsets[0] as usize..offsets[texts.len()] as usize]
}

pub(super) fn made(texts: &LargeStringArray, make: impl Fn(&str) -> Option<Cow<'_, str>>) -> Result<Value> {
    Ok(Value::Text(Arc::new(texts.iter().map(|text| text.and_then(&make)).collect::<LargeStringArray>())))
}

pub(super) fn told(texts: &LargeStringArray, tell: impl Fn(&str) -> bool) -> Result<Value> {
    let values: Vec<i8> = texts.iter().map(|text| i8::from(text.is_some_and(&tell))).collect();
    let (values, nulls) = (Buffer::from_vec(values), texts.nulls().cloned());
    Ok(Value::Numbers(Numbers { dtype: DType::Bool, values, nulls, layout: Layout::Rows }))
}

fn numbers(texts: &LargeStringArray, base: u32) -> Result<Value> {
    let values = texts.iter().map(|text| text.map_or(Ok(0), |text| number(text, base)));
    let (values, nulls) = (Buffer::from_vec(values.collect::<Result<Vec<i64>>>()?), texts.nulls().cloned());
    Ok(Value::Numbers(Numbers { dtype: DType::Int64, values, nulls, layout: Layout::Rows }))
}

/// Reads a whole number: Python's `int(text, base)` without underscores.
fn number(text: &str, base: u32) -> Result<i64> {
    let trimmed = text.trim_matches(is_space);
    let (sign, digits) = match trimmed.strip_prefix(['-', '+']) {
        Some(digits) => (&trimmed[..1], digits),
        None => ("", trimmed),
    };
    let prefixes = match base {
        2 => ["0b", "0B"],
        8 => ["0o", "0O"],
        16 => ["0x", "0X"],
        _ => ["", ""],
    };
    let digits = prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix)).unwrap_or(digits);
    let read = match digits.starts_with(['-', '+']) {
        true => None,
        false => i64::from_str_radix(&format!("{sign}{digits}"), base).ok(),
    };
    read.ok_or_else(|| {
        let start: String = text.chars().take(40).collect();
        Error::data(format!("to_int: {start:?} is no whole number of base {base} in 64 bits"))
            .hint("leave such rows out with filter, or take hash_mod of what is no number")
    })
}

/// Says whether Python's `str.strip` takes a character for white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn slice(text: &str, start: Option<i64>, stop: Option<i64>) -> &str {
    let places = if text.is_ascii() { text.len() } else { text.chars().count() };
    let taken = Call::bounds(start, stop, places);
    if text.is_ascii() {
        return &text[taken];
    }
    let at = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(byte, _)| byte);
    &text[at(taken.start)..at(taken.end)]
}

/// Returns the parts between white space, as Python's `str.split()`.
pub(in crate::table::expr) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

fn part<'a>(mut parts: impl Iterator<Item = &'a str>, index: i64) -> Option<&'a str> {
    match usize::try_from(index) {
        Ok(index) => parts.nth(index),
        // Python splits from the front also for negative indices, which matters where separators overlap.
        Err(_) => {
            let parts: Vec<_> = parts.collect();
            let back = usize::try_from(index.unsigned_abs()).ok()?;
            parts.len().checked_sub(back).map(|at| parts[at])
        }
    }
}
