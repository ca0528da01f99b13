//! Table ops: expressions over columns, and the ops that only move, drop, explode or recompute columns.
//!
//! - `expr/`: expressions, with `filter`; `numbers/` and `texts/`: their kernels
//! - `apply`: the other table ops, with the work of `encode`, `explode`, `finite` and `fit`

mod apply;
mod encode;
mod explode;
mod expr;
mod finite;
mod fit;

pub use apply::apply;
pub use expr::{evaluate, filter};
