//! `+ - * / // % **`, with NumPy's results: see [`super::number`] for one number.
//!
//! Invariant: two literals yield a literal, which still adapts to the dtype of a column.

use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::{Binary, Unary, meet};

use super::kernel::{merge, native, real, update};
use super::number::{Number, Real};
use super::shape::{Layout, Numbers, Place, align};
use crate::table::expr::value::Value;

/// Joins two values by an arithmetic operator.
///
/// # Errors
/// Invalid for texts and literals out of range; Data for a negative power of an integer.
pub(in crate::table::expr) fn join(op: Binary, a: Value, b: Value, rows: usize) -> Result<Value> {
    let literals = !matches!((&a, &b), (Value::Numbers(_), _) | (_, Value::Numbers(_)));
    let dtype = match (op, meet(&a.kind(), &b.kind())?) {
        (Binary::TrueDiv, dtype) if !dtype.is_float() => DType::Float64,
        (Binary::Arctan2, dtype) => Unary::real(dtype),
        (_, dtype) => dtype,
    };
    let (a, b, place) = align(a.bend(dtype)?, b.bend(dtype)?, rows)?;
    if op == Binary::Pow && !dtype.is_float() {
        check_powers(&b, &place, rows)?;
    }
    let values = if op == Binary::TrueDiv {
        real!(dtype, T => merge::<T>(a, b, Real::div), else return Err(Error::internal("a division of integers")))
    } else {
        native!(dtype, T => numbers::<T>(op, a, b)?)
    };
    let result = place.fill(dtype, values);
    Ok(if literals { Value::literal(&result) } else { Value::Numbers(result) })
}

fn numbers<T: Number>(op: Binary, a: Numbers, b: Numbers) -> Result<Buffer> {
    Ok(match op {
        Binary::Add => merge::<T>(a, b, T::add),
        Binary::Sub => merge::<T>(a, b, T::sub),
        Binary::Mul => merge::<T>(a, b, T::mul),
        Binary::FloorDiv => merge::<T>(a, b, T::floor_div),
        Binary::Mod => merge::<T>(a, b, T::modulo),
        Binary::Pow if b.single::<T>().is_some_and(|e| e.i64() == 2 && e.f64() == 2.0) => {
            update::<T>(a.values, |x| x.mul(x))
        }
        Binary::Pow => merge::<T>(a, b, Number::pow),
        Binary::Arctan2 => merge::<T>(a, b, |y, x| T::of(libm::atan2(y.f64(), x.f64()))),
        other => return Err(Error::internal(format!("{} is not arithmetic", other.symbol()))),
    })
}

/// Refuses negative exponents, except in missing rows.
fn check_powers(exponents: &Numbers, place: &Place, rows: usize) -> Result<()> {
    let is_negative = |i: usize| native!(exponents.dtype, T => exponents.at::<T>(i) < T::default());
    let found = match &place.nulls {
        _ if matches!(exponents.layout, Layout::Once) => is_negative(0),
        Some(nulls) => {
            let ranges = place.layout.ranges(rows);
            nulls.valid_indices().any(|row| ranges[row].clone().any(is_negative))
        }
        None => (0..place.layout.len(rows)).any(is_negative),
    };
    if found {
        return Err(Error::data("integers have no negative integer powers").hint("cast to a float first"));
    }
    Ok(())
}
