//! What was pinned of a file.

use std::fmt;

/// What tells one content of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nanoseconds since 1970.
    Mtime(i64),
    /// What the object store says.
    Etag(Box<str>),
}

/// A file as it was pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) mark: Mark,
}

impl Stat {
    /// Says whether it tells this content of a remote file from another that is there later. A server that gives neither an etag
    /// nor a time leaves the size alone.
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

/// One file that a pattern stands for; what the listing already told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) uri: String,
    pub(crate) stat: Option<Stat>,
}
