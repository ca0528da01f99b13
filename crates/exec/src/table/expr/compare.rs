//! `== != < <= > >=` of numbers and of texts.
//!
//! Invariant: integers of all dtypes compare by value: an int64 with a uint64, and a column with a literal that its
//! dtype cannot hold, as in NumPy. Not-a-number is unequal to every number, and has no order.

use std::cmp::Ordering;

use arrow_array::{Array, BooleanArray, Datum, LargeBinaryArray, LargeStringArray, Scalar};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{Binary, Expr, ExprKind, meet};

use super::numbers::kernel::{native, zip};
use super::numbers::number::Number;
use super::numbers::shape::{Layout, Numbers, align};
use super::value::{Value, arrow, together};

/// Compares two values.
///
/// # Errors
/// Invalid for a text and a number.
pub(super) fn compare(op: Binary, a: Value, b: Value, rows: usize) -> Result<Value> {
    match (a, b) {
        (a @ (Value::Text(_) | Value::Word(_)), b @ (Value::Text(_) | Value::Word(_))) => texts(op, a, b),
        (Value::Int(literal), Value::Numbers(numbers)) if beyond(literal, numbers.dtype) => {
            Ok(constant(holds(op, literal.cmp(&0)), numbers, rows))
        }
        (Value::Numbers(numbers), Value::Int(literal)) if beyond(literal, numbers.dtype) => {
            Ok(constant(holds(op, 0.cmp(&literal)), numbers, rows))
        }
        (Value::Numbers(a), Value::Numbers(b)) if mixed(a.dtype, b.dtype) => {
            let (a, b, place) = align(a, b, rows)?;
            let values = if a.dtype == DType::Uint64 {
                native!(b.dtype, T => zip::<u64, T, i8>(&a, &b, |x, y| truth(holds(op, by_value(y.i64(), x).reverse()))))
            } else {
                native!(a.dtype, T => zip::<T, u64, i8>(&a, &b, |x, y| truth(holds(op, by_value(x.i64(), y)))))
            };
            Ok(Value::Numbers(place.fill(DType::Bool, values)))
        }
        (a, b) => {
            let (a, b) = together(a, b)?;
            let (a, b, place) = align(a, b, rows)?;
            let values = match a.dtype {
                DType::Bool => zip::<i8, i8, i8>(&a, &b, |x, y| truth(holds(op, (x != 0).cmp(&(y != 0))))),
                dtype => native!(dtype, T => numbers::<T>(op, &a, &b)?),
            };
            Ok(Value::Numbers(place.fill(DType::Bool, values)))
        }
    }
}

fn truth(value: bool) -> i8 {
    i8::from(value)
}

fn holds(op: Binary, order: Ordering) -> bool {
    match op {
        Binary::Eq => order.is_eq(),
        Binary::Ne => order.is_ne(),
        Binary::Lt => order.is_lt(),
        Binary::Le => order.is_le(),
        Binary::Gt => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn numbers<T: Number>(op: Binary, a: &Numbers, b: &Numbers) -> Result<Buffer> {
    Ok(match op {
        Binary::Eq => zip::<T, T, i8>(a, b, |x, y| truth(x == y)),
        Binary::Ne => zip::<T, T, i8>(a, b, |x, y| truth(x != y)),
        Binary::Lt => zip::<T, T, i8>(a, b, |x, y| truth(x < y)),
        Binary::Le => zip::<T, T, i8>(a, b, |x, y| truth(x <= y)),
        Binary::Gt => zip::<T, T, i8>(a, b, |x, y| truth(x > y)),
        Binary::Ge => zip::<T, T, i8>(a, b, |x, y| truth(x >= y)),
        other => return Err(Error::internal(format!("{} is not a comparison", other.symbol()))),
    })
}

fn beyond(literal: i64, dtype: DType) -> bool {
    let met = meet(&ExprKind::Int, &ExprKind::Column(forebay_data::Kind::scalar(dtype)));
    met.is_ok_and(|met| Expr::literal_fits(literal, met).is_err())
}

/// Returns the same answer for every number: the literal is beyond all of them, on the side of its sign.
fn constant(answer: bool, numbers: Numbers, rows: usize) -> Value {
    let len = numbers.layout.len(rows);
    Value::Numbers(numbers.with(DType::Bool, Buffer::from_vec(vec![truth(answer); len])))
}

/// Says whether no dtype holds all values of both exactly.
fn mixed(a: DType, b: DType) -> bool {
    let signed = |d| matches!(d, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64);
    (a == DType::Uint64 && signed(b)) || (signed(a) && b == DType::Uint64)
}

fn by_value(signed: i64, unsigned: u64) -> Ordering {
    u64::try_from(signed).map_or(Ordering::Less, |s| s.cmp(&unsigned))
}

fn texts(op: Binary, a: Value, b: Value) -> Result<Value> {
    let layout = match (&a, &b) {
        (Value::Word(_), Value::Word(_)) => Layout::Once,
        _ => Layout::Rows,
    };
    let (a, b) = (datum(a)?, datum(b)?);
    let compared = match op {
        Binary::Eq => arrow_ord::cmp::eq(&*a, &*b),
        Binary::Ne => arrow_ord::cmp::neq(&*a, &*b),
        Binary::Lt => arrow_ord::cmp::lt(&*a, &*b),
        Binary::Le => arrow_ord::cmp::lt_eq(&*a, &*b),
        Binary::Gt => arrow_ord::cmp::gt(&*a, &*b),
        _ => arrow_ord::cmp::gt_eq(&*a, &*b),
    };
    let compared: BooleanArray = compared.map_err(arrow)?;
    let values = Buffer::from_vec(compared.values().iter().map(truth).collect::<Vec<i8>>());
    Ok(Value::Numbers(Numbers { dtype: DType::Bool, values, nulls: compared.nulls().cloned(), layout }))
}

fn datum(text: Value) -> Result<Box<dyn Datum>> {
    let wrong = || Error::internal("a text is a string or bytes");
    Ok(match text {
        Value::Word(word) => Box::new(Scalar::new(LargeStringArray::from(vec![word]))),
        Value::Text(column) => match column.as_any().downcast_ref::<LargeStringArray>() {
            Some(strings) => Box::new(strings.clone()),
            None => Box::new(column.as_any().downcast_ref::<LargeBinaryArray>().ok_or_else(wrong)?.clone()),
        },
        _ => return Err(wrong()),
    })
}
