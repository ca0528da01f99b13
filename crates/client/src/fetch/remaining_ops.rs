//! Runs the row ops that a worker left to this process. Each chunk has the number of row ops that the worker ran, so
//! this process keeps no placement boundary of a split: two chunks of one split may have different boundaries. No I/O.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, Schema};
use forebay_exec::Executable;

/// Returns the schema of a chunk on which a worker ran `ops_on_worker` row ops.
///
/// # Errors
/// Data if the pipeline has no placement boundary there.
pub(crate) fn schema_after(executable: &Executable, ops_on_worker: u32) -> Result<&Arc<Schema>> {
    let found = executable.boundaries().find(|(boundary, _)| *boundary == ops_on_worker);
    let unknown = || {
        Error::data(format!(
            "a chunk says that {ops_on_worker} row ops ran on it, and the pipeline has no placement boundary there"
        ))
    };
    found.map(|(_, schema)| schema).ok_or_else(unknown)
}

/// Runs the row ops that a worker did not run on a chunk.
///
/// # Errors
/// The errors of these ops.
pub(crate) fn run_remaining_ops(executable: &Executable, chunk: Chunk, ops_on_worker: u32) -> Result<Chunk> {
    if executable.is_finished(ops_on_worker) { Ok(chunk) } else { executable.finish(chunk, ops_on_worker) }
}
