//! Look-ups of numbers and texts: among values, between bounds, in a row of zeros.

use std::sync::Arc;

use arrow_array::{Array, LargeStringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, TextLists, VariableTensorBuilder};
use forebay_plan::{Found, Keys, Table, Values};

use super::numbers::kernel::{map, native};
use super::numbers::number::Number;
use super::numbers::shape::{Layout, Numbers};
use super::texts::words::strings;
use super::value::Value;

/// The place of no entry. Tables have fewer entries.
const NONE: u32 = u32::MAX;

/// Returns for each value whether it is one of `keys`. Not-a-number never is.
///
/// # Errors
/// Internal for values that the plan's checks refuse.
pub(super) fn is_in(value: Value, keys: &Keys, rows: usize) -> Result<Value> {
    if let Values::Texts(_) = **keys {
        let (texts, place) = (strings(&value, rows)?, keys.places_of_texts());
        let is_one = |text: Option<&str>| i8::from(text.and_then(&place).is_some());
        let (values, nulls) = (Buffer::from_vec(texts.iter().map(is_one).collect()), texts.nulls().cloned());
        return Ok(Value::Numbers(Numbers { dtype: DType::Bool, values, nulls, layout: Layout::Rows }));
    }
    let numbers = value.numbers()?;
    let found = each(&numbers, keys, |place| i8::from(place.is_some()))?;
    Ok(Value::Numbers(numbers.with(DType::Bool, Buffer::from_vec(found))))
}

/// Returns a function from the place of a key to its entry; for no key, the entry of other keys.
fn entry_of(table: &Table) -> impl Fn(Option<usize>) -> u32 + use<> {
    let other = table.other().map_or(NONE, |other| other as u32);
    move |place| place.map_or(other, |place| place as u32)
}

/// Returns the table's entry for each value: missing for a missing value, and for a value without an entry.
///
/// # Errors
/// Internal for tables that `plan` refuses.
pub(super) fn found(value: Value, table: &Table, rows: usize) -> Result<Value> {
    let entry = entry_of(table);
    let (mut at, nulls) = if let Values::Texts(_) = *table.keys {
        let (texts, place) = (strings(&value, rows)?, table.keys.places_of_texts());
        let at: Vec<u32> = texts.iter().map(|text| entry(text.and_then(&place))).collect();
        (at, texts.nulls().cloned())
    } else {
        let numbers = value.numbers()?.expand(&Layout::Rows, rows);
        (each(&numbers, &table.keys, entry)?, numbers.nulls)
    };
    if let Some(nulls) = nulls {
        at.iter_mut().zip(&nulls).filter(|(_, is_there)| !is_there).for_each(|(at, _)| *at = NONE);
    }
    let there = at.contains(&NONE).then(|| BooleanBuffer::collect_bool(at.len(), |row| at[row] != NONE));
    let nulls = there.map(NullBuffer::new);
    let numbers = |dtype, values| Value::Numbers(Numbers { dtype, values, nulls, layout: Layout::Rows });
    Ok(match &table.values {
        Found::Ints(values) => numbers(DType::Int64, Buffer::from_vec(entries(&at, values))),
        Found::Floats(values) => numbers(DType::Float64, Buffer::from_vec(entries(&at, values))),
        Found::Texts(values) => {
            let of = at.iter().map(|at| values.get(*at as usize));
            Value::Text(Arc::new(of.collect::<LargeStringArray>()))
        }
    })
}

/// Returns the table's entry for each item of lists. A missing list stays missing; a text without an entry is missing.
///
/// # Errors
/// Internal for tables that `plan` refuses; Exhausted for more than 2^31 numbers.
pub(super) fn found_items(value: Value, table: &Table, rows: usize) -> Result<Value> {
    let entry = entry_of(table);
    let (at, ends, nulls, layout) = match value {
        Value::Texts(column) => {
            let (lists, place) = (TextLists::of(&column)?, table.keys.places_of_texts());
            let items = (0..rows).flat_map(|row| lists.get(row));
            // A text that is missing has no entry, nor that of other keys.
            let at: Vec<u32> = items.map(|text| text.map_or(NONE, |text| entry(place(text)))).collect();
            let ends = (0..rows).scan(0, |end, row| {
                *end += lists.len_of(row);
                Some(*end)
            });
            (at, ends.collect::<Vec<_>>(), lists.nulls().cloned(), None)
        }
        value => {
            let numbers = value.numbers()?;
            let ends = numbers.layout.ranges(rows).iter().map(|range| range.end).collect();
            (each(&numbers, &table.keys, entry)?, ends, numbers.nulls, Some(numbers.layout))
        }
    };
    let (dtype, values) = match &table.values {
        Found::Texts(values) => {
            let texts = at.iter().map(|at| values.get(*at as usize)).collect();
            let ends = ends.iter().map(|end| *end as i64).collect();
            return Ok(Value::Texts(TextLists::column(texts, ends, nulls)?));
        }
        Found::Ints(values) => (DType::Int64, Buffer::from_vec(entries(&at, values))),
        Found::Floats(values) => (DType::Float64, Buffer::from_vec(entries(&at, values))),
    };
    if let Some(layout) = layout {
        return Ok(Value::Numbers(Numbers { dtype, values, nulls, layout }));
    }
    if at.contains(&NONE) || nulls.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err(Error::data(
            "lookup: a text of a list, or a list, is missing, and a list of numbers has no place for that",
        )
        .hint("leave such rows out with filter"));
    }
    let mut builder = VariableTensorBuilder::new(dtype, 1);
    for (start, end) in std::iter::once(0).chain(ends.iter().copied()).zip(&ends) {
        builder.push(&[end - start], &values[start * dtype.size()..end * dtype.size()])?;
    }
    Value::load(&Kind::Tensor { dtype, shape: vec![None] }, &builder.finish()?)
}

/// Returns the numbers at these places; 0 at no place.
fn entries<T: Copy + Default>(at: &[u32], values: &[T]) -> Vec<T> {
    at.iter().map(|at| values.get(*at as usize).copied().unwrap_or_default()).collect()
}

/// Returns a result for each number, of its place among the keys.
///
/// # Errors
/// Internal for texts.
fn each<R>(numbers: &Numbers, keys: &Keys, of: impl Fn(Option<usize>) -> R) -> Result<Vec<R>> {
    fn all<T: Number, R>(numbers: &Numbers, of: impl Fn(T) -> R) -> Vec<R> {
        numbers.values.typed_data().iter().map(|x| of(T::load(*x))).collect()
    }
    Ok(match &**keys {
        Values::Ints(_) if numbers.dtype == DType::Uint64 => {
            let place = keys.places_of_ints();
            all(numbers, |x: u64| of(i64::try_from(x).ok().and_then(&place)))
        }
        Values::Ints(_) if !numbers.dtype.is_float() => {
            let place = keys.places_of_ints();
            native!(numbers.dtype, T => all(numbers, |x: T| of(place(x.i64()))))
        }
        // Several whole numbers may be one float, so these are searched.
        Values::Ints(keys) => {
            let keys: Vec<f64> = keys.iter().map(|key| *key as f64).collect();
            let place =
                |x: f64| keys.binary_search_by(|key| key.partial_cmp(&x).unwrap_or(std::cmp::Ordering::Less)).ok();
            native!(numbers.dtype, T => all(numbers, |x: T| of(place(x.f64()))))
        }
        Values::Floats(_) => {
            let place = keys.places_of_floats();
            native!(numbers.dtype, T => all(numbers, |x: T| of(place(x.f64()))))
        }
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
