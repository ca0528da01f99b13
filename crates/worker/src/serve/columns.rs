//! The columns of a chunk that should not be copied: dense numbers, the same count in each row, and many of them.

use arrow_buffer::Buffer;
use forebay_core::Result;
use forebay_data::{Chunk, Field, tensor_values};

/// Smaller columns are copied into the message, which costs less than tracking them.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// The numbers of a large column.
#[derive(Debug, Clone)]
pub(crate) struct LargeColumn {
    /// Its index in the schema.
    pub(crate) column: usize,
    pub(crate) values: Buffer,
}

impl LargeColumn {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// Returns the large columns of a chunk.
///
/// # Errors
/// Internal when the chunk does not match its schema.
pub(crate) fn large_columns(chunk: &Chunk) -> Result<Vec<LargeColumn>> {
    let mut large = Vec::new();
    for (column, field) in chunk.schema().fields().iter().enumerate().filter(|(_, f)| dense(f)) {
        let values = tensor_values(&field.kind, &chunk.columns()[column])?;
        if values.len() >= LARGE_BYTES_MIN {
            large.push(LargeColumn { column, values });
        }
    }
    Ok(large)
}

/// Returns a chunk without some of its columns.
///
/// # Errors
/// As [`Chunk::project`].
pub(crate) fn without(chunk: &Chunk, columns: impl IntoIterator<Item = usize>) -> Result<Chunk> {
    let gone: Vec<usize> = columns.into_iter().collect();
    let fields = chunk.schema().fields().iter().enumerate();
    let rest: Vec<_> = fields.filter(|(i, _)| !gone.contains(i)).map(|(_, f)| f.name.clone()).collect();
    chunk.project(&rest)
}

fn dense(field: &Field) -> bool {
    !field.nullable && field.kind.dtype().is_some() && field.kind.known_shape().is_some()
}
