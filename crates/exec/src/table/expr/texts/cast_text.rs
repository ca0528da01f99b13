//! Casts whose result is text: strings and byte strings.
//!
//! | from, to | result |
//! |---|---|
//! | number → string, bytes | as Python's `str`: `7`, `True`, `0.1`, `1e-05`; a float with the fewest digits |
//! | string → bytes | its UTF-8 |
//! | bytes → string | the same bytes, which must be UTF-8 |

use std::fmt::LowerExp;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, LargeBinaryArray, LargeStringArray};
use forebay_core::{Error, Result};
use forebay_data::DType;

use crate::table::expr::numbers::kernel::native;
use crate::table::expr::numbers::number::{Element, Half, Number};
use crate::table::expr::numbers::shape::{Layout, Numbers};
use crate::table::expr::value::Value;

/// Casts a value to strings.
///
/// # Errors
/// Data for bytes that are not UTF-8.
pub(in crate::table::expr) fn to_strings(value: Value, rows: usize) -> Result<Value> {
    Ok(match value {
        Value::Text(column) => Value::Text(match column.as_binary_opt::<i64>() {
            Some(bytes) => Arc::new(decode(bytes)?),
            None => column,
        }),
        word @ Value::Word(_) => word,
        number => Value::Text(Arc::new(write(number.numbers()?, rows))),
    })
}

/// Casts a value to byte strings.
///
/// # Errors
/// Invalid for a value that is neither number nor text.
pub(in crate::table::expr) fn to_bytes(value: Value, rows: usize) -> Result<Value> {
    let column: ArrayRef = match value {
        Value::Text(column) => column,
        Value::Word(word) => Arc::new(LargeStringArray::from_iter_values(std::iter::repeat_n(word, rows))),
        number => Arc::new(write(number.numbers()?, rows)),
    };
    Ok(Value::Text(match column.as_string_opt::<i64>() {
        Some(strings) => Arc::new(LargeBinaryArray::from(strings.clone())),
        None => column,
    }))
}

/// Returns the bytes as strings.
///
/// # Errors
/// Data, with the place of the first byte of the first row that is not UTF-8.
pub(in crate::table::expr) fn decode(bytes: &LargeBinaryArray) -> Result<LargeStringArray> {
    // The bytes of a missing row are ignored.
    bytes.iter().map(|row| row.map(text).transpose()).collect()
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        let start = bytes[..bytes.len().min(40)].escape_ascii();
        Error::data(format!("cannot read b\"{start}\" as string: byte {} is not UTF-8", e.valid_up_to()))
            .hint("filter such rows out before the cast, or leave the column as bytes")
    })
}

fn write(numbers: Numbers, rows: usize) -> LargeStringArray {
    let numbers = numbers.expand(&Layout::Rows, rows);
    let is_there = |row: usize| numbers.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    (0..rows).map(|row| is_there(row).then(|| one(&numbers, row))).collect()
}

/// Formats the number of a row.
fn one(numbers: &Numbers, row: usize) -> String {
    match numbers.dtype {
        DType::Bool => if numbers.at::<i8>(row) == 0 { "False" } else { "True" }.to_owned(),
        DType::Uint64 => numbers.at::<u64>(row).to_string(),
        DType::Float16 => half(numbers.at(row)),
        DType::Float32 => float(numbers.at::<f32>(row)),
        DType::Float64 => float(numbers.at::<f64>(row)),
        dtype => native!(dtype, T => numbers.at::<T>(row).i64()).to_string(),
    }
}

/// Formats a half float with the fewest digits that identify it: five always suffice.
fn half(number: Half) -> String {
    let value = number.f64();
    let names_it = |text: &String| text.parse::<f64>().is_ok_and(|read| read.half().store() == number.store());
    let short = (0..5).map(|digits| format!("{value:.digits$e}")).find(names_it);
    short.map_or_else(|| float(value), |short| laid_out(&short))
}

/// Formats a float with the fewest digits that identify it.
fn float<T: LowerExp + FromStr + PartialEq>(number: T) -> String {
    let shortest = format!("{number:e}");
    // If two numbers are equally near, Python uses the even one; rounding to this many digits does the same.
    let digits =
        shortest.split('e').next().map_or(0, |mantissa| mantissa.trim_start_matches('-').len().saturating_sub(2));
    let even = format!("{number:.digits$e}");
    laid_out(if even.parse().is_ok_and(|read: T| read == number) { &even } else { &shortest })
}

/// Converts a float that Rust wrote with an exponent (`-1.25e-7`) to the form of Python's `repr`: with an exponent only
/// below 1e-4 and from 1e16 on.
fn laid_out(scientific: &str) -> String {
    let (sign, number) = scientific.strip_prefix('-').map_or(("", scientific), |number| ("-", number));
    let parts = number.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    let Some((mantissa, exponent)) = parts else {
        // NumPy writes not-a-number without a sign.
        return if number == "NaN" { "nan".to_owned() } else { format!("{sign}{number}") };
    };
    if !(-4..16).contains(&exponent) {
        let way = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{way}{:02}", exponent.unsigned_abs());
    }
    let digits = mantissa.replace('.', "");
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let whole = exponent as usize + 1;
    let digits = format!("{digits:0<whole$}");
    let (before, after) = digits.split_at(whole);
    format!("{sign}{before}.{}", if after.is_empty() { "0" } else { after })
}
