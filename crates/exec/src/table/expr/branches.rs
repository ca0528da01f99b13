//! The rows for which an expression computes each of its branches: the sides of `where`, the right side of `&` and `|`, and
//! the value of `fill_null`.
//!
//! Most expressions fail in no row, so [`computed`] first computes all branches over all rows. If that fails, it computes
//! each branch over the rows that need it alone. Both give the same bits: the value of a row depends on that row alone.
//! Invariant: whether a row fails does not depend on the rows beside it. So a branch whose lists give the result its shape
//! is needed in all rows. Cost: at most two passes over an expression, at any depth of branches.

use std::sync::Arc;

use arrow_array::{BooleanArray, LargeBinaryArray, LargeStringArray, UInt32Array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer};
use forebay_core::{ErrorKind, Result};
use forebay_data::{Chunk, Kind, Ragged, TextLists};
use forebay_plan::{Binary, Expr};

use super::logic::{is_null, mask};
use super::numbers::shape::{Layout, Numbers};
use super::value::{Value, arrow};

/// The rows for which branches are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// All rows.
    All,
    /// The rows that take the branch.
    Taken,
}

/// Computes an expression.
///
/// # Errors
/// Data of the branches that some row takes.
pub(super) fn computed(expr: &Expr, chunk: &Chunk) -> Result<Value> {
    match super::value(expr, chunk, Needed::All) {
        Err(error) if error.kind() == ErrorKind::Data => super::value(expr, chunk, Needed::Taken),
        other => other,
    }
}

/// Returns both sides of a `where`, each computed for the rows that take it.
///
/// # Errors
/// As [`computed`].
pub(super) fn sides(cond: &Value, yes: &Expr, no: &Expr, chunk: &Chunk) -> Result<(Value, Value)> {
    let all = |expr| super::value(expr, chunk, Needed::Taken);
    let Some(taken) = truths(cond, chunk.num_rows())? else { return Ok((all(yes)?, all(no)?)) };
    let kinds = [yes.kind(chunk.schema())?.column(), no.kind(chunk.schema())?.column()];
    let is_tensor = |kind: &Kind| matches!(kind, Kind::Tensor { .. });
    let side = |expr, kind: &Kind, other: &Kind, taken| match is_open(kind) && !is_tensor(other) {
        true => all(expr),
        false => branch(expr, taken, chunk),
    };
    Ok((side(yes, &kinds[0], &kinds[1], taken.clone())?, side(no, &kinds[1], &kinds[0], !&taken)?))
}

/// Returns the right side of `&` or `|`, computed for the rows that the left side does not decide.
///
/// # Errors
/// As [`computed`].
pub(super) fn second(op: Binary, first: &Value, expr: &Expr, chunk: &Chunk) -> Result<Value> {
    let rows = chunk.num_rows();
    let is_scalar = matches!(expr.kind(chunk.schema())?.column(), Kind::Scalar { .. });
    let (Some(truths), true) = (truths(first, rows)?, is_scalar) else {
        return super::value(expr, chunk, Needed::Taken);
    };
    // A missing value decides nothing.
    let open = match op {
        Binary::Or => !&truths,
        _ => match truths_of(is_null(first), rows)? {
            Some(missing) => &truths | &missing,
            None => truths,
        },
    };
    branch(expr, open, chunk)
}

/// Returns the value of `fill_null`, computed for the rows in which its argument is missing.
///
/// # Errors
/// As [`computed`].
pub(super) fn filling(arg: &Value, expr: &Expr, chunk: &Chunk) -> Result<Value> {
    match truths_of(is_null(arg), chunk.num_rows())? {
        Some(missing) if !is_open(&expr.kind(chunk.schema())?.column()) => branch(expr, missing, chunk),
        _ => super::value(expr, chunk, Needed::Taken),
    }
}

/// Says whether lists of any length give the result its shape.
fn is_open(kind: &Kind) -> bool {
    matches!(kind, Kind::Tensor { .. }) && kind.known_shape().is_none()
}

/// Returns the rows in which a condition is true; `None` unless it is one truth value for each row.
fn truths(cond: &Value, rows: usize) -> Result<Option<BooleanBuffer>> {
    match cond {
        Value::Numbers(numbers) if matches!(numbers.layout, Layout::Once | Layout::Rows) => {
            mask(numbers.clone(), rows).map(Some)
        }
        _ => Ok(None),
    }
}

fn truths_of(cond: Value, rows: usize) -> Result<Option<BooleanBuffer>> {
    truths(&cond, rows)
}

/// Computes an expression for the taken rows; the other rows get any value.
fn branch(expr: &Expr, taken: BooleanBuffer, chunk: &Chunk) -> Result<Value> {
    let rows = chunk.num_rows();
    let count = taken.count_set_bits();
    let mut names = Vec::new();
    expr.columns(&mut |name| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    });
    if count == rows || names.is_empty() {
        return super::value(expr, chunk, Needed::Taken);
    }
    let kind = expr.kind(chunk.schema())?.column();
    if count == 0 {
        return any_value(&kind, rows);
    }
    let some = chunk.project(&names)?.filter(&BooleanArray::new(taken.clone(), None))?;
    let column = super::value(expr, &some, Needed::Taken)?.into_array(&kind, count)?;
    let mut next = 0;
    let places = taken.iter().map(|is_taken| {
        next += u32::from(is_taken);
        if is_taken { next - 1 } else { 0 }
    });
    let places = UInt32Array::from_iter_values(places);
    let spread = arrow_select::take::take(&column, &places, None).map_err(arrow)?;
    Value::load(&kind, &spread)
}

/// Returns rows of some value, which none of them takes.
fn any_value(kind: &Kind, rows: usize) -> Result<Value> {
    let zeros =
        |dtype: forebay_data::DType, count: usize| Buffer::from(MutableBuffer::from_len_zeroed(count * dtype.size()));
    Ok(match kind {
        Kind::Utf8 => Value::Text(Arc::new(LargeStringArray::from_iter_values(std::iter::repeat_n("", rows)))),
        Kind::Bytes => Value::Text(Arc::new(LargeBinaryArray::from_iter_values(std::iter::repeat_n(b"", rows)))),
        Kind::Texts => Value::Texts(TextLists::collect::<&str>((0..rows).map(|_| Some(Vec::new())))?),
        Kind::Scalar { dtype } => {
            Value::Numbers(Numbers { dtype: *dtype, values: zeros(*dtype, 1), nulls: None, layout: Layout::Once })
        }
        Kind::Tensor { dtype, shape } => match kind.known_shape() {
            Some(known) => {
                let values = zeros(*dtype, rows * known.iter().product::<usize>());
                Value::Numbers(Numbers { dtype: *dtype, values, nulls: None, layout: Layout::Fixed(known) })
            }
            None => {
                let empty: Vec<usize> = shape.iter().map(|dim| dim.unwrap_or(0)).collect();
                Value::load(kind, &Ragged::of_one_shape(*dtype, zeros(*dtype, 0), rows, &empty)?)?
            }
        },
    })
}
