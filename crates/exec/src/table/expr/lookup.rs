//! Look-ups of numbers and texts: among values, between bounds, in a row of zeros.

use std::sync::Arc;

use arrow_array::{Array, LargeStringArray};
use arrow_buffer::{Buffer, NullBuffer};
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{Found, Table, Values};

use super::numbers::kernel::{map, native};
use super::numbers::number::Number;
use super::numbers::shape::{Layout, Numbers};
use super::texts::words::strings;
use super::value::Value;

/// Returns for each value whether it is one of `values`, which ascend. Not-a-number never is.
///
/// # Errors
/// Internal for values that the plan's checks refuse.
pub(super) fn is_in(value: Value, values: &Values, rows: usize) -> Result<Value> {
    if let Values::Texts(words) = values {
        let texts = strings(&value, rows)?;
        let is_one = |text: &str| words.binary_search_by(|word| word.as_str().cmp(text)).is_ok();
        let found: Vec<i8> = texts.iter().map(|text| i8::from(text.is_some_and(is_one))).collect();
        let (values, nulls) = (Buffer::from_vec(found), texts.nulls().cloned());
        return Ok(Value::Numbers(Numbers { dtype: DType::Bool, values, nulls, layout: Layout::Rows }));
    }
    let numbers = value.numbers()?;
    let real = |sorted: &[f64], x: f64| {
        sorted.binary_search_by(|value| value.partial_cmp(&x).unwrap_or(std::cmp::Ordering::Less)).is_ok()
    };
    let found = match values {
        Values::Ints(sorted) if numbers.dtype == DType::Uint64 => map::<u64, i8>(&numbers.values, |x| {
            i8::from(i64::try_from(x).is_ok_and(|x| sorted.binary_search(&x).is_ok()))
        }),
        Values::Ints(sorted) if !numbers.dtype.is_float() => {
            native!(numbers.dtype, T => map::<T, i8>(&numbers.values, |x| i8::from(sorted.binary_search(&x.i64()).is_ok())))
        }
        Values::Ints(sorted) => {
            let sorted: Vec<f64> = sorted.iter().map(|value| *value as f64).collect();
            native!(numbers.dtype, T => map::<T, i8>(&numbers.values, |x| i8::from(real(&sorted, x.f64()))))
        }
        Values::Floats(sorted) => {
            native!(numbers.dtype, T => map::<T, i8>(&numbers.values, |x| i8::from(real(sorted, x.f64()))))
        }
        Values::Texts(_) => return Err(Error::internal("texts among numbers")),
    };
    Ok(Value::Numbers(numbers.with(DType::Bool, found)))
}

/// Returns the table's entry for each value: missing for a missing value, and for a value without an entry.
///
/// # Errors
/// Internal where the plan's checks were passed by.
pub(super) fn found(value: Value, table: &Table, rows: usize) -> Result<Value> {
    let places = places(value, &table.keys, rows)?;
    let at = places.into_iter().map(|place| match place {
        Place::Missing => None,
        Place::Key(key) => Some(key),
        Place::Other => table.other(),
    });
    let at: Vec<Option<usize>> = at.collect();
    let there: Vec<bool> = at.iter().map(Option::is_some).collect();
    let nulls = there.contains(&false).then(|| NullBuffer::from(there));
    let numbers = |dtype, values| Value::Numbers(Numbers { dtype, values, nulls, layout: Layout::Rows });
    Ok(match &table.values {
        Found::Ints(values) => {
            let of = at.iter().map(|at| at.map_or(0, |at| values[at]));
            numbers(DType::Int64, Buffer::from_vec(of.collect::<Vec<i64>>()))
        }
        Found::Floats(values) => {
            let of = at.iter().map(|at| at.map_or(0.0, |at| f64::from_bits(values[at])));
            numbers(DType::Float64, Buffer::from_vec(of.collect::<Vec<f64>>()))
        }
        Found::Texts(values) => {
            let of = at.iter().map(|at| at.map(|at| values[at].as_str()));
            Value::Text(Arc::new(of.collect::<LargeStringArray>()))
        }
    })
}

/// Where a value is among keys.
#[derive(Clone, Copy)]
enum Place {
    Missing,
    Key(usize),
    Other,
}

fn places(value: Value, keys: &Values, rows: usize) -> Result<Vec<Place>> {
    let place = |found: std::result::Result<usize, usize>| found.map_or(Place::Other, Place::Key);
    if let Values::Texts(words) = keys {
        let texts = strings(&value, rows)?;
        let of = |text: &str| place(words.binary_search_by(|word| word.as_str().cmp(text)));
        return Ok(texts.iter().map(|text| text.map_or(Place::Missing, of)).collect());
    }
    let numbers = value.numbers()?.expand(&Layout::Rows, rows);
    let real = |sorted: &[f64], x: f64| {
        place(sorted.binary_search_by(|key| key.partial_cmp(&x).unwrap_or(std::cmp::Ordering::Less)))
    };
    let is_there = |row: usize| numbers.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let of = |find: &dyn Fn(usize) -> Place| -> Vec<Place> {
        (0..rows).map(|row| if is_there(row) { find(row) } else { Place::Missing }).collect()
    };
    Ok(match keys {
        Values::Ints(sorted) if numbers.dtype == DType::Uint64 => of(&|row| {
            let key = i64::try_from(numbers.at::<u64>(row));
            key.map_or(Place::Other, |key| place(sorted.binary_search(&key)))
        }),
        Values::Ints(sorted) if !numbers.dtype.is_float() => {
            native!(numbers.dtype, T => of(&|row| place(sorted.binary_search(&numbers.at::<T>(row).i64()))))
        }
        Values::Ints(sorted) => {
            let sorted: Vec<f64> = sorted.iter().map(|key| *key as f64).collect();
            native!(numbers.dtype, T => of(&|row| real(&sorted, numbers.at::<T>(row).f64())))
        }
        Values::Floats(sorted) => native!(numbers.dtype, T => of(&|row| real(sorted, numbers.at::<T>(row).f64()))),
        Values::Texts(_) => return Err(Error::internal("texts among numbers")),
    })
}

/// Returns for each number how many of the ascending bounds are at or below it, or with `right` below it; all of them
/// for not-a-number.
///
/// # Errors
/// Internal for texts.
pub(super) fn bucketize(value: Value, bounds: &[f64], right: bool) -> Result<Value> {
    let numbers = value.numbers()?;
    let bucket = |x: f64| match x.is_nan() {
        true => bounds.len() as i64,
        false => bounds.partition_point(|bound| if right { *bound < x } else { *bound <= x }) as i64,
    };
    let buckets = native!(numbers.dtype, T => map::<T, i64>(&numbers.values, |x| bucket(x.f64())));
    Ok(Value::Numbers(numbers.with(DType::Int64, buckets)))
}

/// Returns a row of `classes` zeros for each number, with 1 at its place.
///
/// # Errors
/// Data for a number that is no class.
pub(super) fn one_hot(value: Value, classes: usize, rows: usize) -> Result<Value> {
    let numbers = value.numbers()?.expand(&Layout::Rows, rows);
    let mut places = vec![0.0f32; rows * classes];
    for row in (0..rows).filter(|&row| numbers.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))) {
        let (is_negative, number) =
            native!(numbers.dtype, T => (numbers.at::<T>(row) < T::default(), numbers.at::<T>(row).u64()));
        let class = usize::try_from(number).ok().filter(|&class| !is_negative && class < classes);
        let class = class.ok_or_else(|| {
            let number = if is_negative { (number as i64).to_string() } else { number.to_string() };
            Error::data(format!("one_hot({classes}): {number} is no class"))
                .hint(format!("classes are 0 to {}: use more, or leave such rows out with filter", classes - 1))
        })?;
        places[row * classes + class] = 1.0;
    }
    let values = Buffer::from_vec(places);
    Ok(Value::Numbers(Numbers {
        dtype: DType::Float32,
        values,
        nulls: numbers.nulls,
        layout: Layout::Fixed(vec![classes]),
    }))
}
