//! Functions of lists: items, slices, and sums of a row's numbers. Results are NumPy's, except that the mean, the
//! minimum and the maximum of an empty list are missing. Numbers are added in their order, floats as float64.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, FixedSizeListArray, Int32Array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{Call, ItemDefault};

use super::kernel::{bits, native};
use super::number::{Element, Number};
use super::shape::{Layout, Numbers};
use crate::table::expr::value::{Value, arrow};

/// Computes a function of the lists of each row.
///
/// # Errors
/// Data for an item that a list does not have; Internal for another function.
pub(in crate::table::expr) fn call(call: &Call, value: Value, rows: usize) -> Result<Value> {
    let numbers = value.numbers()?;
    match call {
        Call::Get { index, default } => get(numbers, *index, default.as_ref(), rows),
        Call::Slice { start, stop } => slice(numbers, *start, *stop, rows),
        Call::Sum {} | Call::Mean {} | Call::Min {} | Call::Max {} => Ok(reduced(call, numbers, rows)),
        other => Err(Error::internal(format!("{other} is no function of a list"))),
    }
}

/// Returns the numbers of one item of the first dimension, and the dimensions of an item.
fn item(layout: &Layout) -> Result<(usize, Vec<usize>)> {
    let dims = match layout {
        Layout::Fixed(shape) => shape.get(1..).map(<[usize]>::to_vec),
        Layout::Variable { shape, .. } => shape.get(1..).and_then(|dims| dims.iter().copied().collect()),
        Layout::Once | Layout::Rows => None,
    };
    let dims = dims.ok_or_else(|| Error::internal("a list of items without a shape"))?;
    Ok((dims.iter().product(), dims))
}

/// Returns the first dimension of a row with the numbers of `range`.
fn length(layout: &Layout, range: &Range<usize>, inner: usize) -> usize {
    match layout {
        Layout::Fixed(shape) => shape[0],
        _ => range.len().checked_div(inner).unwrap_or(0),
    }
}

/// The error for an item that a list does not have.
pub(in crate::table::expr) fn no_item(index: i64, len: usize) -> Error {
    Error::data(format!("get({index}): the list has {len} items")).hint(format!(
        "say what such rows have, as get({index}, default=0) or default=None; or leave them out with \
         filter(fb.col(...).len() > ...)"
    ))
}

fn get(numbers: Numbers, index: i64, default: Option<&ItemDefault>, rows: usize) -> Result<Value> {
    let (inner, dims) = item(&numbers.layout)?;
    let ranges = numbers.layout.ranges(rows);
    let starts = ranges.iter().enumerate().map(|(row, range)| {
        let len = length(&numbers.layout, range, inner);
        let at = if index < 0 { i64::try_from(len).unwrap_or(i64::MAX).checked_add(index) } else { Some(index) };
        match at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < len) {
            Some(at) => Ok(Some(range.start + at * inner)),
            None if numbers.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => Ok(None),
            None if default.is_some() => Ok(None),
            None => Err(no_item(index, len)),
        }
    });
    let starts = starts.collect::<Result<Vec<_>>>()?;
    let filling = filling(default, numbers.dtype);
    let values = bits!(numbers.dtype, T => {
        let from = numbers.values.typed_data::<T>();
        let filling = filling.typed_data::<T>()[0];
        let mut to = Vec::<T>::with_capacity(rows * inner);
        for start in &starts {
            match start {
                Some(start) => to.extend_from_slice(&from[*start..*start + inner]),
                None => to.resize(to.len() + inner, filling),
            }
        }
        Buffer::from_vec(to)
    });
    let missing = default == Some(&ItemDefault::Missing) && starts.contains(&None);
    let there = missing.then(|| NullBuffer::from(starts.iter().map(Option::is_some).collect::<Vec<bool>>()));
    let nulls = NullBuffer::union(numbers.nulls.as_ref(), there.as_ref());
    let numbers = Numbers { nulls, ..numbers };
    let layout = if dims.is_empty() { Layout::Rows } else { Layout::Fixed(dims) };
    Ok(Value::Numbers(Numbers { values, layout, ..numbers }))
}

/// Returns the number for items that lists do not have.
fn filling(default: Option<&ItemDefault>, dtype: DType) -> Buffer {
    native!(dtype, T => Buffer::from_vec(vec![match default {
        Some(ItemDefault::Bool(value)) => T::of(i64::from(*value)),
        Some(ItemDefault::Int(value)) => T::of(*value),
        Some(ItemDefault::Float(value)) => T::of(*value),
        None | Some(ItemDefault::Missing | ItemDefault::Text(_)) => T::of(0i64),
    }.store()]))
}

fn slice(numbers: Numbers, start: Option<i64>, stop: Option<i64>, rows: usize) -> Result<Value> {
    let (inner, _) = item(&numbers.layout)?;
    let taken: Vec<Range<usize>> = numbers
        .layout
        .ranges(rows)
        .iter()
        .map(|range| {
            let items = Call::bounds(start, stop, length(&numbers.layout, range, inner));
            range.start + items.start * inner..range.start + items.end * inner
        })
        .collect();
    let values = bits!(numbers.dtype, T => {
        let from = numbers.values.typed_data::<T>();
        Buffer::from_vec(taken.iter().flat_map(|range| &from[range.clone()]).copied().collect::<Vec<T>>())
    });
    let layout = match &numbers.layout {
        Layout::Fixed(shape) => {
            let mut shape = shape.clone();
            shape[0] = Call::bounds(start, stop, shape[0]).len();
            Layout::Fixed(shape)
        }
        Layout::Variable { shape, shapes, .. } => {
            let wrong = || Error::internal("the shapes of tensors are lists of int32");
            let given = shapes.as_fixed_size_list_opt().ok_or_else(wrong)?;
            let DataType::FixedSizeList(field, rank) = given.data_type() else { return Err(wrong()) };
            let dims = given.values().as_primitive_opt::<Int32Type>().ok_or_else(wrong)?;
            let dims = (0..rows).flat_map(|row| {
                let at = given.value_offset_at(row);
                let first = Call::bounds(start, stop, dims.value(at) as usize).len() as i32;
                std::iter::once(first).chain((at + 1..at + *rank as usize).map(|at| dims.value(at)))
            });
            let dims = Arc::new(dims.collect::<Int32Array>());
            let shapes =
                FixedSizeListArray::try_new_with_length(field.clone(), *rank, dims, None, rows).map_err(arrow)?;
            let ends = taken.iter().scan(0, |end, range| {
                *end += range.len() as i32;
                Some(*end)
            });
            let offsets = OffsetBuffer::new(ScalarBuffer::from(std::iter::once(0).chain(ends).collect::<Vec<i32>>()));
            let shape = std::iter::once(None).chain(shape[1..].iter().copied()).collect();
            Layout::Variable { shape, offsets, shapes: Arc::new(shapes) }
        }
        Layout::Once | Layout::Rows => return Err(Error::internal("a number has no items")),
    };
    Ok(Value::Numbers(Numbers { values, layout, ..numbers }))
}

fn reduced(call: &Call, numbers: Numbers, rows: usize) -> Value {
    let ranges = numbers.layout.ranges(rows);
    let to = call.reduced(numbers.dtype);
    let values = native!(numbers.dtype, T => {
        let from = numbers.values.typed_data::<<T as Element>::Stored>();
        let row = |range: &Range<usize>| from[range.clone()].iter().map(|x| T::load(*x));
        match (call, to) {
            (Call::Sum {}, DType::Int64) => {
                Buffer::from_vec(ranges.iter().map(|r| row(r).fold(0i64, |sum, x| sum.wrapping_add(x.i64()))).collect::<Vec<_>>())
            }
            (Call::Sum {}, DType::Uint64) => {
                Buffer::from_vec(ranges.iter().map(|r| row(r).fold(0u64, |sum, x| sum.wrapping_add(x.u64()))).collect::<Vec<_>>())
            }
            (Call::Sum {} | Call::Mean {}, _) => {
                let sums = ranges.iter().map(|range| {
                    let sum = row(range).fold(0.0, |sum, x| sum + x.f64());
                    if matches!(call, Call::Mean {}) { sum / range.len() as f64 } else { sum }
                });
                native!(to, R => Buffer::from_vec(sums.map(|sum| R::of(sum).store()).collect::<Vec<_>>()))
            }
            _ => {
                let is_min = matches!(call, Call::Min {});
                let best = |a: T, b: T| {
                    // A number without an order is not-a-number, which stays.
                    let keep = match a.partial_cmp(&b) {
                        Some(order) => if is_min { order.is_le() } else { order.is_ge() },
                        None => a.partial_cmp(&a).is_none(),
                    };
                    if keep { a } else { b }
                };
                let bests = ranges.iter().map(|range| row(range).reduce(best).unwrap_or_default().store());
                Buffer::from_vec(bests.collect::<Vec<_>>())
            }
        }
    });
    let none = !matches!(call, Call::Sum {}) && ranges.iter().any(Range::is_empty);
    let there = none.then(|| NullBuffer::from(ranges.iter().map(|range| !range.is_empty()).collect::<Vec<bool>>()));
    let nulls = NullBuffer::union(numbers.nulls.as_ref(), there.as_ref());
    Value::Numbers(Numbers { dtype: to, values, nulls, layout: Layout::Rows })
}
