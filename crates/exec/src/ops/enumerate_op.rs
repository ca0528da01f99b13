//! `enumerate`: the numbers of rows as a column.

use std::sync::Arc;

use arrow_array::Int64Array;
use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_plan::{Op, Step, ops};

/// Returns the rows with a column of these numbers, counted from the start that the op has.
///
/// # Errors
/// Internal for another op.
pub(crate) fn numbered(chunk: &Chunk, step: &Step, numbers: &[u64]) -> Result<Chunk> {
    let Op::Enumerate(ops::Enumerate { column, start }) = &step.node.op else {
        return Err(Error::internal("an op that numbers no rows"));
    };
    let column_of: Int64Array = numbers.iter().map(|number| start.wrapping_add(*number as i64)).collect();
    chunk.with_column(step.schema.field(column)?.clone(), Arc::new(column_of))
}
