//! The pinned identity of a file: its size, and its etag or modification time.

use std::fmt;

/// The property that distinguishes contents of a file of the same size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The modification time in nanoseconds since 1970; 0 if a server reports none.
    Mtime(i64),
    /// The etag of the object store.
    Etag(Box<str>),
}

/// The pinned size and mark of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) mark: Mark,
}

impl Stat {
    /// Says whether it distinguishes the content of a remote file from later content at the same url. Without an etag
    /// and a time from the server, only the size is known.
    pub(super) fn tells_apart(&self) -> bool {
        self.mark != Mark::Mtime(0)
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, ", self.size)?;
        match &self.mark {
            Mark::Mtime(ns) => write!(f, "mtime {}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)),
            Mark::Etag(tag) => write!(f, "etag {tag}"),
        }
    }
}

/// One file that matches a pattern, with its identity if the listing reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) uri: String,
    pub(crate) stat: Option<Stat>,
}
