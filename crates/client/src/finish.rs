//! What a worker left to do on a chunk. A chunk says itself which row ops have run on it, so nobody here remembers where splits are
//! cut: two chunks of one split may be cut at two places. No I/O.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, Schema};
use forebay_exec::Executable;

/// Returns the columns of a chunk on which so many row ops have run.
///
/// # Errors
/// Data when no chunk is cut there.
pub(crate) fn columns(executable: &Executable, ops: u32) -> Result<&Arc<Schema>> {
    let found = executable.boundaries().find(|(stop, _)| *stop == ops);
    let unknown = || Error::data(format!("a chunk says that {ops} row ops have run on it, and is cut nowhere"));
    found.map(|(_, schema)| schema).ok_or_else(unknown)
}

/// Runs the row ops on a chunk that have not run on it.
///
/// # Errors
/// What one of them fails with.
pub(crate) fn finish(executable: &Executable, chunk: Chunk, ops: u32) -> Result<Chunk> {
    if executable.is_finished(ops) { Ok(chunk) } else { executable.finish(chunk, ops) }
}
