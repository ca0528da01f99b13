//! Conditions that rows of a source must meet to be read.

use arrow_buffer::BooleanBuffer;
use forebay_data::Chunk;

/// A condition on columns of a source. Whether a row meets it depends on that row alone.
pub trait RowCondition: Send + Sync {
    /// Returns the columns that it needs: at least one.
    fn columns(&self) -> &[String];

    /// Computes it for rows.
    fn compute(&self, rows: &Chunk) -> ConditionBits;
}

/// The result of a condition: two bits for each row.
#[derive(Debug)]
pub struct ConditionBits {
    /// Whether the row meets the condition.
    pub met: BooleanBuffer,
    /// Whether the condition cannot be computed for the row. Such a row is read, and the op that states the condition
    /// reports it.
    pub failed: BooleanBuffer,
}
