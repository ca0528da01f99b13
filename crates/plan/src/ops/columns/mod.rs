//! Ops on columns: Python functions, expressions, and choosing, renaming and casting columns.

mod cast;
mod check_finite;
mod drop;
mod explode;
mod expression;
mod filter;
mod flat_map;
mod function;
mod map;
mod rename;
mod select;
mod with_column;

pub use cast::Cast;
pub use check_finite::CheckFinite;
pub use drop::Drop;
pub use explode::Explode;
pub use filter::{FilterExpr, FilterFunction};
pub use flat_map::FlatMap;
pub use function::Function;
pub use map::Map;
pub use rename::Rename;
pub use select::Select;
pub use with_column::WithColumn;
