//! Conditions that rows of a source must meet to be read.

use arrow_buffer::BooleanBuffer;
use forebay_data::Chunk;

/// A condition on columns of a source. Whether a row meets it depends on that row alone.
pub trait RowCondition: Send + Sync {
    /// Returns the columns that it needs: at least one.
    fn columns(&self) -> &[String];

    /// Returns one bit for each row: whether the row stays. A row for which the condition cannot be computed stays, so
    /// that the op that states the condition reports it.
    fn stays(&self, rows: &Chunk) -> BooleanBuffer;
}
