//! The row groups of a file that may match a condition.

/// The row groups of a file that may have a row for which a condition is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matching {
    /// The rows of each row group; 0 for a group in which the condition is true for no row.
    pub(crate) rows: Vec<u64>,
    /// The compressed bytes of the row groups for which the condition may be true.
    pub(crate) bytes: u64,
}
