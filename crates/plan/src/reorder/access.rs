//! The effects of each row op: the columns that it reads, and those that it makes, changes or removes; whether it can
//! fail and whether it filters.
//!
//! Invariant: an op without a rule here has no access ([`Access::of`] returns `None`); such an op never moves, and none
//! moves past it. The rule of a Python function is its `reads=`, the only columns that it gets.

use forebay_data::{Kind, Schema};

use crate::graph::Node;
use crate::ops::expr::{Binary, Expr, cast_may_fail};
use crate::ops::op::Op;

/// The effects of an op on a row, as far as they concern its order among other ops.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// Columns whose values it reads.
    pub reads: Vec<String>,
    /// Columns that it changes, renames or removes.
    pub writes: Vec<String>,
    /// Whether it may remove rows.
    pub filters: bool,
    /// Whether a row can make it fail.
    pub may_fail: bool,
    /// Whether it sees rows together: which ones must not change, though it should not matter.
    pub grouped: bool,
}

impl Access {
    /// Returns the access of a node over rows of `input`; `None` if it has to stay at its place.
    pub(crate) fn of_node(node: &Node, input: &Schema) -> Option<Self> {
        if node.keep_position { None } else { Self::of(&node.op, input) }
    }

    /// Returns the access of an op over rows of `input`; `None` without a rule.
    pub(crate) fn of(op: &Op, input: &Schema) -> Option<Self> {
        match op {
            Op::Map { function, output, keep_others: true } => Some(Self {
                reads: function.reads.clone()?,
                writes: output.iter().map(|field| field.name.clone()).collect(),
                may_fail: true,
                grouped: function.batched,
                filters: false,
            }),
            Op::FilterFunction { function } => Some(Self {
                reads: function.reads.clone()?,
                writes: Vec::new(),
                may_fail: true,
                grouped: function.batched,
                filters: true,
            }),
            Op::FilterExpr { predicate } => Some(Self { filters: true, ..computed(predicate, input) }),
            Op::WithColumn { column, value } => Some(Self { writes: vec![column.clone()], ..computed(value, input) }),
            Op::Cast { columns } => Some(Self {
                may_fail: cast_may_fail(columns, input),
                ..changed(columns.iter().map(|(column, _)| column))
            }),
            Op::Rename { columns } => Some(changed(columns.iter().flat_map(|(from, to)| [from, to]))),
            // That the columns which stay are there is checked with the schema of every order.
            Op::Select { columns } => {
                let gone = input.fields().iter().map(|field| &field.name).filter(|name| !columns.contains(name));
                Some(Self { writes: gone.cloned().collect(), ..Self::default() })
            }
            Op::Drop { columns } => Some(Self { writes: columns.clone(), ..Self::default() }),
            Op::Tokenize(tokenize) => Some(Self {
                reads: vec![tokenize.column.clone()],
                writes: vec![tokenize.output.clone()],
                may_fail: true,
                ..Self::default()
            }),
            op => {
                let column = op.image_column()?.to_owned();
                Some(Self { may_fail: image_may_fail(op), ..changed([&column]) })
            }
        }
    }
}

/// The access of an op that changes columns in place.
fn changed<'a>(columns: impl IntoIterator<Item = &'a String>) -> Access {
    let columns: Vec<_> = columns.into_iter().cloned().collect();
    Access { reads: columns.clone(), writes: columns, ..Access::default() }
}

/// The access of an op that computes an expression.
fn computed(value: &Expr, input: &Schema) -> Access {
    let mut reads = Vec::new();
    value.columns(&mut |column| reads.push(column.to_owned()));
    // A tensor may have missing numbers inside, which is an error.
    let may_fail = expr_may_fail(value) || reads.iter().any(|column| !is_plain(input, column));
    Access { reads, may_fail, ..Access::default() }
}

/// Says whether a value of a row can make an expression fail: a text that is no number, a negative power of an integer,
/// a missing part of a tensor.
fn expr_may_fail(expr: &Expr) -> bool {
    match expr {
        Expr::Col { .. } | Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } => false,
        Expr::Binary { op, left, right } => *op == Binary::Pow || expr_may_fail(left) || expr_may_fail(right),
        Expr::FillNull { arg, value } => expr_may_fail(arg) || expr_may_fail(value),
        Expr::Unary { arg, .. } | Expr::Clip { arg, .. } | Expr::HashMod { arg, .. } => expr_may_fail(arg),
        Expr::Where { cond, yes, no } => [cond, yes, no].into_iter().any(|expr| expr_may_fail(expr)),
        Expr::Stack { .. } | Expr::Cast { .. } => true,
    }
}

/// Images fail where they are decoded, and where a size passes a limit.
fn image_may_fail(op: &Op) -> bool {
    !matches!(op, Op::RandomFlip { .. } | Op::ColorJitter { .. } | Op::RandomGrayscale { .. } | Op::Normalize { .. })
}

fn is_plain(input: &Schema, column: &str) -> bool {
    input.field(column).is_ok_and(|field| !matches!(field.kind, Kind::Tensor { .. }))
}
