//! Table ops: expressions over columns, and the ops that only move, drop, explode or recompute columns.
//!
//! - `expr/`: expressions, with `filter`; `numbers/` and `texts/`: their kernels
//! - `apply`: the other table ops, with the work of `encode`, `explode`, `finite` and `fit`
//! - `condition`: the conditions of filters, for a reader that leaves out rows
//! - `sort`: the order of rows by a column

mod apply;
mod condition;
mod encode;
mod explode;
mod expr;
mod finite;
mod fit;
mod sort;

pub use apply::apply;
pub(crate) use condition::Condition;
pub use expr::{evaluate, filter};
pub use sort::sorted_rows;
