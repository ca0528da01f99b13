//! The interface of a cache that keeps bytes of remote files nearer than their store: `io` requests a range of a file,
//! and passes a function that fetches missing bytes.
//!
//! Invariants that an implementation keeps: the bytes are those of the pinned file, as many as requested; a request
//! returns at once, so that several ranges are in flight together.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::Result;

/// Called once with the result of a read.
pub type Done = Box<dyn FnOnce(Result<Bytes>) + Send>;
/// Starts to read a range of a file from its store, and returns at once. Bytes of another file than the pinned one are
/// an error.
pub type Fetch = Arc<dyn Fn(Range<u64>, Done) + Send + Sync>;
/// Waits for a range, and fills a slice of the same length.
pub type Arriving = Box<dyn FnOnce(&mut [u8]) -> Result<()> + Send>;

/// A remote file with its pinned identity.
#[derive(Debug, Clone, Copy)]
pub struct RemoteFile<'a> {
    /// Its url.
    pub uri: &'a str,
    /// Its size in bytes.
    pub size: u64,
    /// The identity of its content among all contents of this url: its etag, or its modification time.
    pub identity: &'a str,
}

/// Keeps bytes of remote files.
pub trait ReadThrough: Send + Sync + fmt::Debug {
    /// Returns a file that is read through its cached bytes.
    fn file(&self, file: RemoteFile<'_>, fetch: Fetch) -> Arc<dyn NearFile>;
}

/// A file with cached bytes.
pub trait NearFile: Send + Sync + fmt::Debug {
    /// Requests a range, which lies within the file.
    fn request(&self, range: Range<u64>) -> Arriving;

    /// Says whether, as far as this process knows, all of a range is kept. A request for it then waits for no store.
    fn holds(&self, range: Range<u64>) -> bool;
}
