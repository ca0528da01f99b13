//! Converts between Python's values and the engine's columns.

pub(super) mod arrays;
pub(super) mod masks;
pub(super) mod memory;
pub(super) mod numpy;
mod objects;
pub(super) mod rows;
pub(super) mod schema_errors;
pub(super) mod taken;
pub(super) mod values;
