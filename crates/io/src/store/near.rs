//! The seam to whatever keeps bytes of remote files nearer than their store: `io` says which range of which file it wants, and
//! how to fetch what is not there.
//!
//! Invariants that an implementation keeps: the bytes are those of the pinned file, as many as were asked for; asking returns at
//! once, so that several ranges are on their way together.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::Result;

/// Told once what became of a read.
pub type Done = Box<dyn FnOnce(Result<Bytes>) + Send>;
/// Begins to read a range of a file from its store, and returns at once. What does not come of the file that was pinned is an
/// error.
pub type Fetch = Arc<dyn Fn(Range<u64>, Done) + Send + Sync>;
/// Waits for a range, and fills the place that is as long.
pub type Arriving = Box<dyn FnOnce(&mut [u8]) -> Result<()> + Send>;

/// A remote file as it was pinned.
#[derive(Debug, Clone, Copy)]
pub struct RemoteFile<'a> {
    /// Where it is.
    pub uri: &'a str,
    /// Its bytes.
    pub size: u64,
    /// What tells its content from any other at this place: its etag, or when it was written.
    pub identity: &'a str,
}

/// Keeps bytes of remote files.
pub trait ReadThrough: Send + Sync + fmt::Debug {
    /// Returns a file that is read through what is kept of it.
    fn file(&self, file: RemoteFile<'_>, fetch: Fetch) -> Arc<dyn NearFile>;
}

/// A file of which bytes are kept.
pub trait NearFile: Send + Sync + fmt::Debug {
    /// Asks for a range, which the file has.
    fn request(&self, range: Range<u64>) -> Arriving;

    /// Says whether all of a range is kept, as far as this process knows, so that asking for it waits for no store.
    fn holds(&self, range: Range<u64>) -> bool;
}
