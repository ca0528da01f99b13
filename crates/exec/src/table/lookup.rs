//! Look-ups of numbers and texts: among values, between bounds, in a row of zeros.

use arrow_array::Array;
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::Values;

use super::kernel::{map, native};
use super::number::Number;
use super::shape::{Layout, Numbers};
use super::value::Value;
use super::words::strings;

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
