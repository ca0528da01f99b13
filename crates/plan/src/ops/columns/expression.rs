//! Access and cost of an op that computes an expression.

use forebay_data::{Kind, Schema};

use crate::ops::access::Access;
use crate::ops::expr::{Binary, Expr};
use crate::ops::spec::{BYTE_NS, NUMBER_NS};

/// Returns the access of an op that computes an expression and writes nothing.
pub(super) fn access(value: &Expr, input: &Schema) -> Access {
    let mut reads = Vec::new();
    value.columns(&mut |column| reads.push(column.to_owned()));
    // A tensor may have missing numbers inside, which is an error.
    let may_fail = may_be_refused(value) || reads.iter().any(|column| !is_plain(input, column));
    Access { reads, may_fail, ..Access::default() }
}

/// Returns the cost of an expression in nanoseconds for a row; `read` and `made` are bytes of input and of output.
pub(super) fn ns(value: &Expr, read: f64, made: f64) -> f64 {
    operations(value) * (NUMBER_NS + read.max(made) * BYTE_NS)
}

/// Returns whether a value of a row can make an expression fail: a text that is no number, a negative power of an
/// integer, a missing part of a tensor.
fn may_be_refused(expr: &Expr) -> bool {
    match expr {
        Expr::Col { .. } | Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } => false,
        Expr::Binary { op, left, right } => *op == Binary::Pow || may_be_refused(left) || may_be_refused(right),
        Expr::FillNull { arg, value } => may_be_refused(arg) || may_be_refused(value),
        Expr::Unary { arg, .. } | Expr::Clip { arg, .. } | Expr::HashMod { arg, .. } => may_be_refused(arg),
        Expr::Where { cond, yes, no } => [cond, yes, no].into_iter().any(|expr| may_be_refused(expr)),
        Expr::Call { call, arg } => call.may_fail() || may_be_refused(arg),
        Expr::Stack { .. } | Expr::ConcatList { .. } | Expr::Cast { .. } => true,
    }
}

fn is_plain(input: &Schema, column: &str) -> bool {
    input.field(column).is_ok_and(|field| !matches!(field.kind, Kind::Tensor { .. }))
}

/// Returns the number of operations of an expression.
fn operations(value: &Expr) -> f64 {
    match value {
        Expr::Col { .. } | Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } => 0.5,
        Expr::Binary { left, right, .. } => 1.0 + operations(left) + operations(right),
        Expr::Unary { arg, .. }
        | Expr::Clip { arg, .. }
        | Expr::HashMod { arg, .. }
        | Expr::Call { arg, .. }
        | Expr::Cast { arg, .. } => 1.0 + operations(arg),
        Expr::FillNull { arg, value } => 1.0 + operations(arg) + operations(value),
        Expr::Where { cond, yes, no } => 1.0 + operations(cond) + operations(yes) + operations(no),
        Expr::Stack { args } | Expr::ConcatList { args } => 1.0 + args.iter().map(operations).sum::<f64>(),
    }
}
