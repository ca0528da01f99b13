//! The interface of a place whose blocks are listed and read: a store, or peers.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forebay_core::Result;

/// Blocks in another place. Each call returns before its time limit.
pub trait RemoteBlocks: Send + Sync + fmt::Debug {
    /// Returns the URL of the place, for messages.
    fn uri(&self) -> &str;

    /// Lists the objects below a folder.
    ///
    /// # Errors
    /// The place's error.
    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>>;

    /// Reads parts of objects concurrently; returns the results in the order of `parts`. A part that is late is
    /// Unavailable.
    ///
    /// # Errors
    /// For each part: NotFound where the object does not exist, Data where it ends before the part, or the place's
    /// error.
    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>>;
}

/// An object of a [`RemoteBlocks`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written, by the clock of its place.
    pub modified: SystemTime,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The object's name.
    pub name: String,
    /// The range of bytes.
    pub range: Range<u64>,
}

/// With fewer reads than this, the averages are a guess.
const READS_FEW: u32 = 8;

/// The capacity of a remote tier, and the cost of a read from it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Elsewhere {
    /// Bytes of rows that it has room for; 0 while it is not used.
    pub room: u64,
    /// The time of a read independent of its size, in nanoseconds; `None` before the first read.
    pub request_nanos: Option<f64>,
    /// The time of each byte, in nanoseconds.
    pub byte_nanos: Option<f64>,
    /// The number of reads in these averages.
    pub reads: u32,
}

impl Elsewhere {
    /// Says whether there is room and the time of a read is not well known.
    pub fn is_guess(&self) -> bool {
        self.room > 0 && self.reads < READS_FEW
    }
}
