//! The ops of a pipeline, as plain data with checked arguments.
//!
//! - `op`: the enum of all ops, and their classes
//! - `arguments`: types of arguments that several ops share
//! - `facts`: what is known of an op without a schema: its name, its class, whether it is random
//! - `apply`: the schema after an op, and the checks of its arguments
//! - `image`, `mix`, `text`, `bucket`: the schemas and checks of these groups of ops
//! - `expr/`: the expression language of `filter` and `with_column`

mod apply;
pub(crate) mod arguments;
pub(crate) mod bucket;
pub(crate) mod expr;
mod facts;
pub(crate) mod image;
mod mix;
pub(crate) mod op;
pub(crate) mod text;
