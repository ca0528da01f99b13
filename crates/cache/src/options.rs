//! The places of a cache and their quotas, as the user chooses them.

use std::path::PathBuf;

use crate::tiers::store::SharedStore;

/// The quotas of a cache, and its places.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most bytes of memory for rows and their index. The index of tiers may take up to 64 MiB even where this is
    /// less.
    pub memory: u64,
    /// The local disk, if it is used.
    pub disk: Option<Disk>,
    /// The store that machines share, if one is used.
    pub store: Option<SharedStore>,
}

/// A folder for blocks. Processes that share it share its quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The folder. It is created if it is missing.
    pub folder: PathBuf,
    /// The most bytes of all blocks in it. A block has a few KiB besides its rows: far below 1 MiB, no rows are kept.
    pub bytes: u64,
    /// Whether pages of remote files are kept in it, too.
    pub sources: bool,
}
