//! Which columns of an expression may be missing, and which a condition proves to be present.
//!
//! The result of an op on a missing value is missing, except for `is_null`, `fill_null`, `stack` (not-a-number), `&`
//! and `|` (Kleene's), and the side that `where` does not take. So a row that passes a filter has every column without
//! which the predicate cannot be true, and each side of `where` is typed with the knowledge of its condition.
//! Invariant: a column that is declared present here is present in every row; python/tests/expressions/test_narrowing.py checks
//! that on random conditions.

use std::collections::BTreeSet;

use forebay_data::Schema;

use super::{Binary, Expr, Unary};

/// Names of columns that are present.
type Known<'e> = BTreeSet<&'e str>;

/// The knowledge about a condition in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    /// It is present, with this value.
    Is(bool),
    /// It is missing, or does not have this value.
    IsNot(bool),
}

impl Expr {
    /// Returns whether its value may be missing in a row.
    pub fn is_nullable(&self, schema: &Schema) -> bool {
        self.may_be_missing(schema, &Known::new())
    }

    /// Returns the columns that are present in every row for which this condition is true.
    pub fn proven(&self) -> BTreeSet<&str> {
        self.proves(Truth::Is(true))
    }

    fn may_be_missing(&self, schema: &Schema, known: &Known<'_>) -> bool {
        match self {
            Expr::Col { name } => !known.contains(name.as_str()) && schema.field(name).is_ok_and(|f| f.nullable),
            Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } => false,
            Expr::Unary { op: Unary::IsNull, .. } | Expr::Stack { .. } => false,
            Expr::ConcatList { args } => args.iter().any(|arg| arg.may_be_missing(schema, known)),
            Expr::Binary { left, right, .. } => {
                left.may_be_missing(schema, known) || right.may_be_missing(schema, known)
            }
            Expr::Where { cond, yes, no } => {
                let with = |truth| known.union(&cond.proves(truth)).copied().collect();
                yes.may_be_missing(schema, &with(Truth::Is(true)))
                    || no.may_be_missing(schema, &with(Truth::IsNot(true)))
            }
            Expr::FillNull { arg, value } => arg.may_be_missing(schema, known) && value.may_be_missing(schema, known),
            Expr::Call { call, arg } => {
                let gives_none = || arg.kind(schema).is_ok_and(|kind| call.may_be_missing(&kind.column()));
                arg.may_be_missing(schema, known) || gives_none()
            }
            Expr::Unary { arg, .. } | Expr::Clip { arg, .. } | Expr::HashMod { arg, .. } | Expr::Cast { arg, .. } => {
                arg.may_be_missing(schema, known)
            }
        }
    }

    /// Returns the columns that are present if this condition is as `truth` states.
    fn proves(&self, truth: Truth) -> Known<'_> {
        match (self, truth) {
            (Expr::Unary { op: Unary::Not, arg }, Truth::Is(value)) => arg.proves(Truth::Is(!value)),
            (Expr::Unary { op: Unary::Not, arg }, Truth::IsNot(value)) => arg.proves(Truth::IsNot(!value)),
            // `is_null` itself is never missing.
            (Expr::Unary { op: Unary::IsNull, arg }, Truth::Is(false) | Truth::IsNot(true)) => arg.needs(),
            (Expr::Unary { op: Unary::IsNull, .. }, _) => Known::new(),
            (Expr::Binary { op: op @ (Binary::And | Binary::Or), left, right }, truth) => {
                // `a & b` is true if both are, and not false if neither is; `|` the other way round.
                let both = match truth {
                    Truth::Is(value) => value == (*op == Binary::And),
                    Truth::IsNot(value) => value != (*op == Binary::And),
                };
                let (a, b) = (left.proves(truth), right.proves(truth));
                if both { &a | &b } else { &a & &b }
            }
            (_, Truth::Is(_)) => self.needs(),
            (_, Truth::IsNot(_)) => Known::new(),
        }
    }

    /// Returns the columns without which its value is missing.
    fn needs(&self) -> Known<'_> {
        match self {
            Expr::Col { name } => Known::from([name.as_str()]),
            Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } => Known::new(),
            // A single text that is missing is a missing item of the list.
            Expr::Unary { op: Unary::IsNull, .. } | Expr::Stack { .. } | Expr::ConcatList { .. } => Known::new(),
            Expr::Binary { op: Binary::And | Binary::Or, left: a, right: b } | Expr::FillNull { arg: a, value: b } => {
                &a.needs() & &b.needs()
            }
            Expr::Binary { left, right, .. } => &left.needs() | &right.needs(),
            Expr::Where { cond, yes, no } => {
                let yes = &yes.needs() | &cond.proves(Truth::Is(true));
                let no = &no.needs() | &cond.proves(Truth::IsNot(true));
                &yes & &no
            }
            Expr::Unary { arg, .. }
            | Expr::Clip { arg, .. }
            | Expr::HashMod { arg, .. }
            | Expr::Call { arg, .. }
            | Expr::Cast { arg, .. } => arg.needs(),
        }
    }
}
