//! `& | ~` of bools, and `is_null`.
//!
//! `&` and `|` of single truth values are Kleene's: false & missing is false, true | missing is true. In tensors a row
//! is missing as a whole, and so is the result when either side's row is.

use arrow_array::Array;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::Binary;

use super::numbers::kernel::{merge, update};
use super::numbers::shape::{Layout, Numbers, align};
use super::value::Value;

/// Joins two truth values.
///
/// # Errors
/// Invalid for anything but truth values.
pub(super) fn join(op: Binary, a: Value, b: Value, rows: usize) -> Result<Value> {
    let (a, b, mut place) = align(truth(a)?, truth(b)?, rows)?;
    if place.nulls.is_some() && !matches!(place.layout, Layout::Fixed(_) | Layout::Variable { .. }) {
        place.nulls = kleene(op, &a, &b, rows);
    }
    let values = match op {
        Binary::And => merge::<i8>(a, b, |x, y| i8::from((x != 0) & (y != 0))),
        _ => merge::<i8>(a, b, |x, y| i8::from((x != 0) | (y != 0))),
    };
    Ok(Value::Numbers(place.fill(DType::Bool, values)))
}

/// A result is known where both sides are known, or where one known side decides for any value of the other.
fn kleene(op: Binary, a: &Numbers, b: &Numbers, rows: usize) -> Option<NullBuffer> {
    let decides = i8::from(op == Binary::Or);
    let side = |x: &Numbers| {
        let known = x.nulls.as_ref().map_or_else(|| BooleanBuffer::new_set(rows), |n| n.inner().clone());
        let values = x.values.typed_data::<i8>();
        let at = |i: usize| if values.len() == 1 { values[0] } else { values[i] };
        let deciding = BooleanBuffer::collect_bool(rows, |i| i8::from(at(i) != 0) == decides);
        (&known & &deciding, known)
    };
    let ((decided_a, known_a), (decided_b, known_b)) = (side(a), side(b));
    Some(NullBuffer::new(&(&(&known_a & &known_b) | &decided_a) | &decided_b)).filter(|n| n.null_count() > 0)
}

/// Inverts bools.
///
/// # Errors
/// Invalid for anything but truth values.
pub(super) fn not(a: Value) -> Result<Value> {
    let mut a = truth(a)?;
    a.values = update::<i8>(a.values, |x| i8::from(x == 0));
    Ok(Value::Numbers(a))
}

/// Returns for each row whether it is missing.
pub(super) fn is_null(a: &Value) -> Value {
    let nulls = match a {
        Value::Numbers(numbers) => numbers.nulls.as_ref(),
        Value::Text(column) | Value::Texts(column) => column.nulls(),
        _ => None,
    };
    let Some(nulls) = nulls else { return Value::truth(false) };
    let values = Buffer::from_vec(nulls.iter().map(|known| i8::from(!known)).collect::<Vec<i8>>());
    Value::Numbers(Numbers { dtype: DType::Bool, values, nulls: None, layout: Layout::Rows })
}

/// Returns one bit for each row: true, and not missing.
///
/// # Errors
/// Invalid unless there is one truth value for each row.
pub(super) fn mask(numbers: Numbers, rows: usize) -> Result<BooleanBuffer> {
    let numbers = truth(Value::Numbers(numbers))?.expand(&Layout::Rows, rows);
    if !matches!(numbers.layout, Layout::Rows) {
        return Err(Error::invalid("a truth value for each row is needed, not a tensor of them"));
    }
    let values = numbers.values.typed_data::<i8>();
    let bits = BooleanBuffer::collect_bool(rows, |i| values[i] != 0);
    Ok(match numbers.nulls {
        Some(known) => &bits & known.inner(),
        None => bits,
    })
}

/// Returns truth values.
///
/// # Errors
/// Invalid for anything else.
pub(super) fn truth(value: Value) -> Result<Numbers> {
    match value {
        Value::Numbers(numbers) if numbers.dtype == DType::Bool => Ok(numbers),
        _ => Err(Error::invalid("not a truth value").hint("compare it with something, for example > 0")),
    }
}
