//! `where`, `fill_null` and `clip`.
//!
//! A condition of one truth value for each row chooses whole rows, of any kind; a condition with a shape chooses
//! numbers, and a row is missing when either side's row is.

use arrow_array::{Array, BooleanArray, Datum, LargeStringArray, Scalar};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use forebay_core::{Error, Result};
use forebay_data::{Kind, Ragged};
use forebay_plan::meet;

use super::logic::{is_null, mask, truth};
use super::numbers::kernel::{bits, native, update};
use super::numbers::number::Number;
use super::numbers::shape::{Layout, Numbers, common};
use super::value::{Value, arrow};

/// Returns `yes` where `cond` is true, and `no` where it is false or missing.
///
/// # Errors
/// Invalid for kinds that do not fit together, and for a literal that the other side's dtype cannot hold.
pub(super) fn choose(cond: Value, yes: Value, no: Value, rows: usize) -> Result<Value> {
    let cond = truth(cond)?;
    match (yes, no) {
        (yes @ (Value::Text(_) | Value::Word(_)), no @ (Value::Text(_) | Value::Word(_))) => {
            let picked = pick(cond, &*text(yes, rows)?, &*text(no, rows)?, rows)?;
            Ok(Value::Text(picked))
        }
        (Value::Texts(yes), Value::Texts(no)) => Ok(Value::Texts(pick(cond, &yes, &no, rows)?)),
        (yes @ Value::Numbers(_), no @ Value::Numbers(_)) if by_row(&cond) && two_shapes(&yes, &no) => {
            let dtype = meet(&yes.kind(), &no.kind())?;
            whole_rows(cond, yes.bend(dtype)?, no.bend(dtype)?, rows)
        }
        (yes, no) => {
            let dtype = meet(&yes.kind(), &no.kind())?;
            numbers(cond, yes.bend(dtype)?, no.bend(dtype)?, rows)
        }
    }
}

/// Returns `value`, with `filling` where it is missing.
///
/// # Errors
/// As [`choose`].
pub(super) fn fill(value: Value, filling: Value, rows: usize) -> Result<Value> {
    let is_whole = match &value {
        Value::Int(_) | Value::Float(_) | Value::Word(_) => true,
        Value::Numbers(numbers) => numbers.nulls.as_ref().is_none_or(|nulls| nulls.null_count() == 0),
        Value::Text(column) | Value::Texts(column) => column.null_count() == 0,
    };
    if is_whole { Ok(value) } else { choose(is_null(&value), filling, value, rows) }
}

fn by_row(cond: &Numbers) -> bool {
    matches!(cond.layout, Layout::Once | Layout::Rows)
}

/// Says whether rows may have another shape on one side than on the other.
fn two_shapes(yes: &Value, no: &Value) -> bool {
    match (yes, no) {
        (Value::Numbers(yes), Value::Numbers(no)) => match (&yes.layout, &no.layout) {
            (Layout::Fixed(a), Layout::Fixed(b)) => a != b,
            (Layout::Variable { .. }, Layout::Fixed(_) | Layout::Variable { .. }) => true,
            (Layout::Fixed(_), Layout::Variable { .. }) => true,
            _ => false,
        },
        _ => false,
    }
}

fn numbers(cond: Numbers, yes: Numbers, no: Numbers, rows: usize) -> Result<Value> {
    let layout = common(&[&cond, &yes, &no])?;
    let by_row = by_row(&cond);
    let nulls = match (&yes.nulls, &no.nulls) {
        (None, None) => None,
        (a, b) if !by_row => NullBuffer::union(a.as_ref(), b.as_ref()),
        (a, b) => {
            let chosen = mask(cond.clone(), rows)?;
            let known = |n: &Option<NullBuffer>| n.as_ref().map_or(BooleanBuffer::new_set(rows), |n| n.inner().clone());
            Some(NullBuffer::new(&(&chosen & &known(a)) | &(&!&chosen & &known(b))))
        }
    };
    let cond = only_known(cond, rows).expand(&layout, rows);
    let is_once = |x: &Numbers| matches!(x.layout, Layout::Once);
    let (yes, no) = (
        if is_once(&yes) { yes } else { yes.expand(&layout, rows) },
        if is_once(&no) { no } else { no.expand(&layout, rows) },
    );
    let dtype = yes.dtype;
    let values = bits!(dtype, T => {
        let cond = cond.values.typed_data::<i8>();
        let (a, b) = (yes.values.typed_data::<T>(), no.values.typed_data::<T>());
        let pick = |c: i8, x: T, y: T| if c != 0 { x } else { y };
        let picked: Vec<T> = match (yes.single::<T>(), no.single::<T>()) {
            (Some(x), Some(y)) => cond.iter().map(|&c| pick(c, x, y)).collect(),
            (Some(x), None) => cond.iter().zip(b).map(|(&c, &y)| pick(c, x, y)).collect(),
            (None, Some(y)) => cond.iter().zip(a).map(|(&c, &x)| pick(c, x, y)).collect(),
            (None, None) => cond.iter().zip(a.iter().zip(b)).map(|(&c, (&x, &y))| pick(c, x, y)).collect(),
        };
        Buffer::from_vec(picked)
    });
    Ok(Value::Numbers(Numbers { dtype, values, nulls, layout }))
}

/// Makes a missing condition false.
fn only_known(cond: Numbers, rows: usize) -> Numbers {
    let Some(nulls) = &cond.nulls else { return cond };
    let mut known = cond.values.typed_data::<i8>().to_vec();
    for (row, range) in cond.layout.ranges(rows).into_iter().enumerate() {
        if nulls.is_null(row) {
            known[range].fill(0);
        }
    }
    Numbers { values: Buffer::from_vec(known), nulls: None, ..cond }
}

/// Chooses rows whose shapes differ: their offsets change, so Arrow builds a new column.
fn whole_rows(cond: Numbers, yes: Numbers, no: Numbers, rows: usize) -> Result<Value> {
    let dims = |numbers: &Numbers| match &numbers.layout {
        Layout::Variable { shape, .. } => shape.clone(),
        Layout::Fixed(shape) => shape.iter().copied().map(Some).collect(),
        Layout::Once | Layout::Rows => Vec::new(),
    };
    let shape = dims(&yes).into_iter().zip(dims(&no)).map(|(a, b)| if a == b { a } else { None }).collect();
    let kind = Kind::Tensor { dtype: yes.dtype, shape };
    let array = |numbers: Numbers| match &numbers.layout {
        // The rows of the result have either shape.
        Layout::Fixed(shape) => Ragged::of_one_shape(numbers.dtype, numbers.values.clone(), rows, shape),
        _ => Value::Numbers(numbers).into_array(&kind, rows),
    };
    let picked = pick(cond, &array(yes)?, &array(no)?, rows)?;
    Value::load(&kind, &picked)
}

fn pick(cond: Numbers, yes: &dyn Datum, no: &dyn Datum, rows: usize) -> Result<arrow_array::ArrayRef> {
    let chosen = BooleanArray::new(mask(cond, rows)?, None);
    arrow_select::zip::zip(&chosen, yes, no).map_err(arrow)
}

fn text(value: Value, rows: usize) -> Result<Box<dyn Datum>> {
    Ok(match value {
        Value::Word(word) => Box::new(Scalar::new(LargeStringArray::from(vec![word]))),
        Value::Text(column) if column.len() == rows => Box::new(column),
        _ => return Err(Error::internal("a text of another length")),
    })
}

/// Returns `low` where a number is smaller and `high` where it is larger; `high` wins where they cross.
///
/// A bound that the dtype cannot hold is moved to the nearest value that it can hold, which does not change the result.
/// Not-a-number stays.
///
/// # Errors
/// Invalid for texts.
pub(super) fn clip(value: Value, low: Option<f64>, high: Option<f64>) -> Result<Value> {
    let literal = !matches!(value, Value::Numbers(_));
    let numbers = value.numbers()?;
    let dtype = numbers.dtype;
    let values = native!(dtype, T => {
        let (low, high) = (low.map(T::of::<f64>), high.map(T::of::<f64>));
        let at_least = |x: T, bound: T| if x < bound { bound } else { x };
        let at_most = |x: T, bound: T| if x > bound { bound } else { x };
        match (low, high) {
            (Some(low), Some(high)) => update::<T>(numbers.values, |x| at_most(at_least(x, low), high)),
            (Some(low), None) => update::<T>(numbers.values, |x| at_least(x, low)),
            (None, Some(high)) => update::<T>(numbers.values, |x| at_most(x, high)),
            (None, None) => numbers.values,
        }
    });
    let clipped = Numbers { dtype, values, nulls: numbers.nulls, layout: numbers.layout };
    Ok(if literal { Value::literal(&clipped) } else { Value::Numbers(clipped) })
}
