//! The row groups of a file that are not left out.

/// The row groups of a file that a condition may be true in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matching {
    /// The rows of each row group: none where the condition is true of none.
    pub(crate) rows: Vec<u64>,
    /// What the other row groups take in the file.
    pub(crate) bytes: u64,
}
