//! How a process names the rows of a prefix.

/// A row of a prefix in this process: the number of its file, and the row, as in [`SampleId`].
pub(crate) type Number = u64;
/// A row that cannot be kept, because its file number or its row is too large.
pub(crate) const NO_NUMBER: Number = u64::MAX;
