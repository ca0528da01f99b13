//! A page of a file, and its size.

use std::fmt;

use crate::key::FileKey;

/// Bytes of a page; the last page of a file is shorter. Smaller pages cost more requests; larger ones more bytes before
/// the first row, where rows are read in any order.
pub const PAGE_BYTES: u64 = 1 << 20;

/// A page of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) file: FileKey,
    pub(crate) page: u64,
}

impl fmt::Display for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{}", self.page)
    }
}
