//! The types of operands, and the dtypes of results: NumPy's rules for two dtypes, and NumPy 2's for a Python number
//! beside a column.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};

use super::Unary;

/// The type of an expression before it is a column: a literal gets the dtype of the column beside it.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A column of this kind.
    Column(Kind),
    /// A Python integer.
    Int,
    /// A Python float.
    Float,
}

impl ExprKind {
    /// Returns the kind of its column: int64 and float64 for literals.
    pub fn column(self) -> Kind {
        match self {
            ExprKind::Column(kind) => kind,
            ExprKind::Int => Kind::scalar(DType::Int64),
            ExprKind::Float => Kind::scalar(DType::Float64),
        }
    }

    pub(super) fn is_literal(&self) -> bool {
        !matches!(self, ExprKind::Column(_))
    }
}

impl Unary {
    /// Says whether its result is a float for whole numbers, too, as of logarithms and sines.
    pub fn is_real(self) -> bool {
        use Unary::*;
        !matches!(self, Neg | Not | Abs | Sign | Floor | Ceil | Round | IsNan | IsNull | Len)
    }

    /// Returns the dtype of a logarithm, exponential or square root of `dtype`: the float that NumPy chooses for it.
    pub fn real(dtype: DType) -> DType {
        match (dtype.is_float(), dtype.size()) {
            (true, _) => dtype,
            (false, 1) => DType::Float16,
            (false, 2) => DType::Float32,
            _ => DType::Float64,
        }
    }
}

/// Returns the dtype that holds both, as NumPy's `result_type`.
pub fn promote(a: DType, b: DType) -> DType {
    use DType::*;
    if a == b {
        return a;
    }
    let signed = |bits: usize| [Int8, Int16, Int32, Int64].into_iter().find(|d| d.size() * 8 >= bits);
    let is_signed = |d| matches!(d, Int8 | Int16 | Int32 | Int64);
    match (a, b) {
        (Bool, other) | (other, Bool) => other,
        (x, y) if x.is_float() && y.is_float() => {
            if x.size() > y.size() {
                x
            } else {
                y
            }
        }
        (f, i) | (i, f) if f.is_float() => {
            let need = match i.size() {
                1 => Float16,
                2 => Float32,
                _ => Float64,
            };
            promote(f, need)
        }
        (x, y) if is_signed(x) == is_signed(y) => {
            if x.size() > y.size() {
                x
            } else {
                y
            }
        }
        (x, y) => {
            let (s, u) = if is_signed(x) { (x, y) } else { (y, x) };
            if s.size() > u.size() { s } else { signed(u.size() * 16).unwrap_or(Float64) }
        }
    }
}

/// The error for a column without numbers.
pub(super) fn no_arithmetic(kind: &Kind) -> Error {
    let error = Error::invalid(format!("{kind} has no arithmetic"));
    match kind {
        Kind::Utf8 => error.hint("convert a text that holds a number: .cast(\"float64\")"),
        _ => error,
    }
}

/// Returns the dtype of arithmetic on two numbers; Python literals adapt to the other side.
pub fn meet(a: &ExprKind, b: &ExprKind) -> Result<DType> {
    let number = |k: &ExprKind| match k {
        ExprKind::Column(kind) => kind.dtype().ok_or_else(|| no_arithmetic(kind)),
        ExprKind::Int => Ok(DType::Int64),
        ExprKind::Float => Ok(DType::Float64),
    };
    let bend = |column: DType, literal: &ExprKind| match literal {
        ExprKind::Float if !column.is_float() => DType::Float64,
        ExprKind::Int if column == DType::Bool => DType::Int64,
        _ => column,
    };
    Ok(match (a, b) {
        (ExprKind::Column(_), ExprKind::Column(_)) => promote(number(a)?, number(b)?),
        (ExprKind::Column(_), literal) => bend(number(a)?, literal),
        (literal, ExprKind::Column(_)) => bend(number(b)?, literal),
        _ => promote(number(a)?, number(b)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_numpys() {
        use DType::*;
        for (a, b, want) in [
            (Uint8, Int8, Int16),
            (Uint64, Int64, Float64),
            (Int32, Float32, Float64),
            (Int16, Float32, Float32),
            (Uint8, Float16, Float16),
            (Bool, Int8, Int8),
            (Uint32, Int64, Int64),
        ] {
            assert_eq!(promote(a, b), want, "{a} {b}");
            assert_eq!(promote(b, a), want, "{b} {a}");
        }
    }
}
