//! The tier in a store that machines share. Peers are a second tier of this kind: their blocks are listed and read as a
//! store's, and nothing is written to them.
//!
//! ```text
//! <format>/<prefix>/<name>.arrow    a block, as on disk; written once and whole, under a name that is never used again
//! <format>/<prefix>/used            empty; rewritten from time to time by each process that uses the prefix
//! ```
//!
//! | module | |
//! |---|---|
//! | `tier` | `StoreTier`: its parts, and whether reads and writes succeed |
//! | `discovery` | lists the blocks of a prefix, and decides when to list them again |
//! | `headers`, `range_buffer` | read the headers of many blocks together; present ranges that were read as a file |
//! | `read`, `write` | read rows by range; write blocks and make room for them |
//! | `maintenance` | the thread that lists, copies blocks to the disk, and marks the prefixes in use |
//! | `breaker` | when a store that fails is not asked |
//! | `cost` | what a read takes, whether it pays, which ranges are read together |
//! | `peer_ask_policy` | whether peers are asked for rows that they do not list |
//! | `account` | which blocks are deleted when the quota is full |
//! | `names` | the names of objects |
//!
//! Invariants: no job fails because of the store. A job waits for it only within named bounds ([`cost::WAIT_MAX`],
//! [`maintenance::OPEN_WAIT`]), and not at all while the breaker is open. A row that was read has the sum that it was
//! written with.
//!
//! The store has no owner and no locks: blocks never change, and a block that is gone is a miss. Two processes that
//! make room at once may delete more than needed; nothing worse happens.

pub(crate) mod account;
mod breaker;
pub(crate) mod cost;
mod discovery;
pub(crate) mod headers;
pub(crate) mod maintenance;
pub(crate) mod names;
mod peer_ask_policy;
pub(crate) mod range_buffer;
pub(crate) mod read;
pub(crate) mod tier;
mod write;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forebay_core::{Result, Stopwatch};

/// What the cache needs of a store. Each call returns before its time limit.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns the URL of the store, for messages.
    fn uri(&self) -> &str;

    /// Lists the objects below a folder.
    ///
    /// # Errors
    /// The store's error.
    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>>;

    /// Reads parts of objects concurrently; returns the results in the order of `parts`. A part that is late is
    /// Unavailable.
    ///
    /// # Errors
    /// Of each part: NotFound where there is no such object, Data where it ends before the part, or the store's error.
    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>>;

    /// Writes an object, whole or not at all. The name is new.
    ///
    /// # Errors
    /// The store's error.
    fn put(&self, name: &str, bytes: Bytes, limit: Duration) -> Result<()>;

    /// Writes an empty object, which sets its time.
    ///
    /// # Errors
    /// The store's error.
    fn touch(&self, name: &str, limit: Duration) -> Result<()>;

    /// Deletes an object, if it is there.
    ///
    /// # Errors
    /// The store's error.
    fn delete(&self, name: &str, limit: Duration) -> Result<()>;

    /// Deletes incomplete uploads of dead writers below a folder, where the store does not do that itself.
    fn tidy(&self, _below: &str) {}

    /// Returns how many peers it stands for; 0 for a store.
    fn caches(&self) -> u64 {
        0
    }
}

/// An object of a [`Store`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: SystemTime,
}

/// With fewer reads than this, the averages are a guess.
const READS_FEW: u32 = 8;

/// The capacity of a remote tier, and what a read from it takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Elsewhere {
    /// Bytes of rows that it has room for; 0 while it is not asked.
    pub room: u64,
    /// The time of a read whatever its size, in nanoseconds; `None` before the first read.
    pub request_nanos: Option<f64>,
    /// The time of each byte, in nanoseconds.
    pub byte_nanos: Option<f64>,
    /// The number of reads in these averages.
    pub reads: u32,
}

impl Elsewhere {
    /// Says whether there is room and the time of a read is hardly known.
    pub fn is_guess(&self) -> bool {
        self.room > 0 && self.reads < READS_FEW
    }
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The object's name.
    pub name: String,
    /// The range of bytes.
    pub range: Range<u64>,
}

/// A store to keep rows in, with its quota.
#[derive(Clone)]
pub struct SharedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The most bytes that all processes that share it keep there together.
    pub bytes: u64,
    /// Measures reads, and says when a store that failed is tried again. It decides what is read and what is computed,
    /// never a row.
    pub watch: Arc<dyn Stopwatch>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("store", &self.store).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
