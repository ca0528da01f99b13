//! The expression language of `with_column` and `filter`: `fb.col("x") * 2 + 1`, as plain data. `exec` evaluates it.
//!
//! - `tree`: the expression and its operators; `call`, `cast`: functions with fixed arguments, and casts; `constants`:
//!   lists of values and defaults among these arguments; `keys`: values that are looked up; `operand`: the kinds that calls
//!   take; `patterns`: patterns of texts
//! - `table`, `time`: tables that it looks up; units, parts and formats of times
//! - `written`: its serialized form
//! - `kind`: its type over a schema; `promote`: the types of operands, and the dtypes of results; `concat`: the type of
//!   `concat_list`
//! - `missing`: the columns that may be missing; `ranges`: whether a condition may be true for rows of which a file's
//!   footer tells the ranges

mod call;
mod cast;
mod concat;
mod constants;
mod keys;
mod kind;
mod lengths;
mod missing;
mod operand;
mod patterns;
mod promote;
mod ranges;
mod table;
mod time;
mod tree;
mod written;

pub use call::Call;
pub use cast::CastType;
pub(crate) use cast::cast_may_fail;
pub use constants::{ItemDefault, Values};
pub use keys::Keys;
pub use kind::stack_dtype;
pub use patterns::{Group, Pattern, Replacement};
pub use promote::{ExprKind, meet, promote};
pub use ranges::{ColumnValues, ValueBound, ValueRange};
pub use table::{Found, Table};
pub use time::{MONTHS, TimeItem, TimePart, TimeUnit, WEEKDAYS, time_items};
pub use tree::{Binary, Expr, Unary};
pub(crate) use written::Part;
