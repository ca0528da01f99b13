//! Functions of one number.
//!
//! `floor`, `ceil`, `round`, `sqrt` and `abs` are exact. Logarithms, exponentials and the functions of angles are computed
//! in float64 by `libm`, which is the same Rust code on every machine; a system's own library may differ in the last bit. Its
//! error is below 1 unit of the last place (it is a port of FreeBSD's msun). They are rounded once to float32 and float16.

use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::Unary;

use super::convert::convert;
use super::kernel::{map, native, real, update};
use super::number::{Number, Real};
use super::shape::Numbers;
use crate::table::expr::value::Value;

/// Computes a function of each number.
///
/// # Errors
/// Invalid for texts and truth values.
pub(in crate::table::expr) fn function(op: Unary, value: Value) -> Result<Value> {
    let literal = !matches!(value, Value::Numbers(_));
    let numbers = value.numbers()?;
    let result = match op {
        op if op.is_real() => {
            let dtype = if literal { DType::Float64 } else { Unary::real(numbers.dtype) };
            let numbers = convert(numbers, dtype);
            let values = real!(dtype, T => analytic::<T>(op, numbers.values.clone()), else return Err(unknown(op)));
            numbers.with(dtype, values)
        }
        Unary::IsNan => {
            let values =
                native!(numbers.dtype, T => map::<T, i8>(&numbers.values, |x| i8::from(x.partial_cmp(&x).is_none())));
            return Ok(Value::Numbers(numbers.with(DType::Bool, values)));
        }
        _ => simple(op, numbers)?,
    };
    Ok(if literal { Value::literal(&result) } else { Value::Numbers(result) })
}

fn simple(op: Unary, numbers: Numbers) -> Result<Numbers> {
    let dtype = numbers.dtype;
    let Numbers { values, nulls, layout, .. } = numbers;
    let values = match op {
        Unary::Neg => native!(dtype, T => update::<T>(values, T::neg)),
        Unary::Abs => native!(dtype, T => update::<T>(values, Number::abs)),
        Unary::Sign => native!(dtype, T => update::<T>(values, sign)),
        Unary::Floor => real!(dtype, T => update::<T>(values, Real::floor), else values),
        Unary::Ceil => real!(dtype, T => update::<T>(values, Real::ceil), else values),
        Unary::Round => real!(dtype, T => update::<T>(values, Real::round), else values),
        other => return Err(unknown(other)),
    };
    Ok(Numbers { dtype, values, nulls, layout })
}

/// 1, 0 or -1; not-a-number stays.
fn sign<T: Number>(x: T) -> T {
    let zero = T::default();
    match x.partial_cmp(&zero) {
        Some(std::cmp::Ordering::Greater) => T::of(1i8),
        Some(std::cmp::Ordering::Less) => T::of(-1i8),
        Some(std::cmp::Ordering::Equal) => zero,
        None => x,
    }
}

fn analytic<T: Real>(op: Unary, values: arrow_buffer::Buffer) -> arrow_buffer::Buffer {
    let function: fn(f64) -> f64 = match op {
        Unary::Log => libm::log,
        Unary::Log1p => libm::log1p,
        Unary::Log2 => libm::log2,
        Unary::Log10 => libm::log10,
        Unary::Exp => libm::exp,
        Unary::Exp2 => libm::exp2,
        Unary::Expm1 => libm::expm1,
        Unary::Cbrt => libm::cbrt,
        Unary::Sin => libm::sin,
        Unary::Cos => libm::cos,
        Unary::Tan => libm::tan,
        Unary::Arcsin => libm::asin,
        Unary::Arccos => libm::acos,
        Unary::Arctan => libm::atan,
        Unary::Sinh => libm::sinh,
        Unary::Cosh => libm::cosh,
        Unary::Tanh => libm::tanh,
        Unary::Arcsinh => libm::asinh,
        Unary::Arccosh => libm::acosh,
        Unary::Arctanh => libm::atanh,
        Unary::Degrees => f64::to_degrees,
        Unary::Radians => f64::to_radians,
        _ => return update::<T>(values, Real::sqrt),
    };
    update::<T>(values, |x| T::of(function(x.f64())))
}

fn unknown(op: Unary) -> Error {
    Error::internal(format!("{op:?} is not a function of a number"))
}
