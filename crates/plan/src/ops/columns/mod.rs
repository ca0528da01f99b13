//! Ops on columns: Python functions, expressions, and choosing, renaming and casting columns.

mod cast;
mod check_finite;
mod drop;
mod expression;
mod filter;
mod function;
mod map;
mod rename;
mod select;
mod with_column;

pub use cast::Cast;
pub use check_finite::CheckFinite;
pub use drop::Drop;
pub use filter::{FilterExpr, FilterFunction};
pub use function::Function;
pub use map::Map;
pub use rename::Rename;
pub use select::Select;
pub use with_column::WithColumn;
