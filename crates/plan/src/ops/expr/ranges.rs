//! Whether a condition may be true for some row, judged by the value ranges in a file's footer.
//!
//! Invariant: if a condition is true for a row, the answer is that it may be true. A condition that this module does
//! not understand may be true.

use std::cmp::Ordering;

use super::{Binary, Expr, Unary};

/// A bound of a range of values.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueBound {
    /// A whole number, or a truth value as 0 or 1.
    Int(i128),
    /// Another number, which is never NaN.
    Float(f64),
    /// Bytes, or a text in UTF-8.
    Bytes(Vec<u8>),
}

/// The values of some rows of a column, without missing ones and NaN.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ValueRange {
    /// None.
    Empty,
    /// From the first to the second one.
    Between(ValueBound, ValueBound),
    /// Unknown.
    #[default]
    Any,
}

/// The knowledge about some rows of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnValues {
    /// The values that are present.
    pub range: ValueRange,
    /// Whether a row may lack a value.
    pub may_be_missing: bool,
    /// Whether a value may be NaN.
    pub may_be_nan: bool,
}

impl Default for ColumnValues {
    /// Makes the values of a column without any knowledge.
    fn default() -> Self {
        Self { range: ValueRange::Any, may_be_missing: true, may_be_nan: true }
    }
}

/// The possible results of a condition in some row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Truth {
    may_be_true: bool,
    may_be_false: bool,
}

impl Expr {
    /// Returns whether this condition may be true for a row; `values` returns the knowledge about a column.
    pub fn may_be_true(&self, values: &dyn Fn(&str) -> ColumnValues) -> bool {
        self.truth(values).may_be_true
    }

    fn truth(&self, values: &dyn Fn(&str) -> ColumnValues) -> Truth {
        match self {
            Expr::Bool { value } => Truth { may_be_true: *value, may_be_false: !*value },
            Expr::Col { name } => match values(name).range {
                ValueRange::Empty => Truth { may_be_true: false, may_be_false: false },
                ValueRange::Between(ValueBound::Int(low), ValueBound::Int(high)) => {
                    Truth { may_be_true: high != 0, may_be_false: low == 0 }
                }
                _ => Truth::UNKNOWN,
            },
            Expr::Unary { op: Unary::Not, arg } => {
                let Truth { may_be_true, may_be_false } = arg.truth(values);
                Truth { may_be_true: may_be_false, may_be_false: may_be_true }
            }
            Expr::Unary { op: Unary::IsNull, arg } => match &**arg {
                Expr::Col { name } => {
                    let ColumnValues { range, may_be_missing, may_be_nan } = values(name);
                    Truth { may_be_true: may_be_missing, may_be_false: range != ValueRange::Empty || may_be_nan }
                }
                _ => Truth::UNKNOWN,
            },
            // Kleene's logic: both are true, or one is false; one is true, or both are false.
            Expr::Binary { op: Binary::And, left, right } => {
                let (a, b) = (left.truth(values), right.truth(values));
                Truth { may_be_true: a.may_be_true && b.may_be_true, may_be_false: a.may_be_false || b.may_be_false }
            }
            Expr::Binary { op: Binary::Or, left, right } => {
                let (a, b) = (left.truth(values), right.truth(values));
                Truth { may_be_true: a.may_be_true || b.may_be_true, may_be_false: a.may_be_false && b.may_be_false }
            }
            Expr::Binary { op, left, right } => match (left.operand(values), right.operand(values)) {
                (Some(a), Some(b)) => compare(*op, &a, &b).unwrap_or(Truth::UNKNOWN),
                _ => Truth::UNKNOWN,
            },
            _ => Truth::UNKNOWN,
        }
    }

    /// Returns the values of an operand, if it is a column or a literal.
    fn operand(&self, values: &dyn Fn(&str) -> ColumnValues) -> Option<ColumnValues> {
        let there = |range| Some(ColumnValues { range, may_be_missing: false, may_be_nan: false });
        let one = |bound: ValueBound| there(ValueRange::Between(bound.clone(), bound));
        match self {
            Expr::Col { name } => Some(values(name)),
            Expr::Int { value } => one(ValueBound::Int((*value).into())),
            Expr::Bool { value } => one(ValueBound::Int((*value).into())),
            Expr::Str { value } => one(ValueBound::Bytes(value.as_bytes().to_vec())),
            Expr::Float { value } if value.is_nan() => None,
            Expr::Float { value } => one(ValueBound::Float(*value)),
            _ => None,
        }
    }
}

impl Truth {
    const UNKNOWN: Self = Self { may_be_true: true, may_be_false: true };
}

/// Returns the possible results of a comparison of two values; `None` for any other op. A comparison with a missing
/// value is missing: neither true nor false.
fn compare(op: Binary, a: &ColumnValues, b: &ColumnValues) -> Option<Truth> {
    let is_comparison = matches!(op, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge);
    if !is_comparison {
        return None;
    }
    let (less, equal, greater) = orders(&a.range, &b.range)?;
    let (may_be_true, may_be_false) = match op {
        Binary::Eq => (equal, less || greater),
        Binary::Ne => (less || greater, equal),
        Binary::Lt => (less, equal || greater),
        Binary::Le => (less || equal, greater),
        Binary::Gt => (greater, less || equal),
        _ => (greater || equal, less),
    };
    // NaN differs from everything, and is ordered with nothing.
    let nan = a.may_be_nan || b.may_be_nan;
    Some(Truth { may_be_true: may_be_true || (nan && op == Binary::Ne), may_be_false: may_be_false || nan })
}

/// Returns whether a value of the first may be less than one of the second, equal to it, and greater.
fn orders(a: &ValueRange, b: &ValueRange) -> Option<(bool, bool, bool)> {
    let (a, b) = match (a, b) {
        (ValueRange::Empty, _) | (_, ValueRange::Empty) => return Some((false, false, false)),
        (ValueRange::Between(a, high), ValueRange::Between(b, other)) => ((a, high), (b, other)),
        _ => return None,
    };
    let less = order(a.0, b.1, Rounding::Apart)?.is_lt();
    let greater = order(a.1, b.0, Rounding::Apart)?.is_gt();
    let equal = order(a.0, b.1, Rounding::Together)?.is_le() && order(a.1, b.0, Rounding::Together)?.is_ge();
    Some((less, equal, greater))
}

/// How to round before comparing: numbers may be compared as float32, as float64 or as whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    /// So that different values stay different.
    Apart,
    /// So that values that one of these comparisons calls equal are equal.
    Together,
}

/// Compares two bounds of one kind.
fn order(a: &ValueBound, b: &ValueBound, rounding: Rounding) -> Option<Ordering> {
    let single = |x: f64| x as f32;
    let float = |bound: &ValueBound| match bound {
        ValueBound::Int(value) => Some(*value as f64),
        ValueBound::Float(value) => Some(*value),
        ValueBound::Bytes(_) => None,
    };
    match (a, b) {
        (ValueBound::Bytes(a), ValueBound::Bytes(b)) => Some(a.cmp(b)),
        (ValueBound::Int(a), ValueBound::Int(b)) => Some(a.cmp(b)),
        _ => {
            let (a, b) = (float(a)?, float(b)?);
            let exact = a.partial_cmp(&b)?;
            let rounded = single(a).partial_cmp(&single(b))?;
            Some(if rounding == Rounding::Together && rounded.is_eq() { rounded } else { exact })
        }
    }
}
