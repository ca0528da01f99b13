//! A store that machines share, behind a seam; and what peers have, behind the same: what is said here of a store holds for
//! them, but that nothing is written there.
//!
//! ```text
//! <format>/<prefix>/<name>.arrow    a block, as on disk; written once, whole, under a name that nobody else gives
//! <format>/<prefix>/used            empty; made anew now and then by whoever uses the prefix
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `questions` | whether peers are asked for rows that nobody shows |
//! | `breaker` | when a store that fails is left alone |
//! | `cost` | what a read takes, whether it pays, what is read at once |
//! | `account` | which blocks go when the quota is full |
//! | `names` | what objects are called |
//! | `pieces`, `heads` | how what is read by ranges looks like a file; how many blocks are looked at together |
//! | `tier`, `read`, `look`, `write` | what jobs, the keeper and the writer call |
//! | `keeper` | the thread that lists, brings blocks near, and says what is used |
//!
//! Invariants: no job fails because of the store, and none waits for it longer than a bound with a name ([`cost::WAIT_MAX`],
//! [`keeper::OPEN_WAIT`]) until the breaker opens, and then not at all; what was read has the sum that it was written with.
//! Nobody owns a store and there are no locks: blocks are never changed, a block that is gone is a miss, and two that
//! make room at once remove more than they had to, nothing worse.

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

/// What the cache needs of a store. Each call is over when its limit is.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns its url, for people.
    fn uri(&self) -> &str;

    /// Lists what is below a folder of it.
    ///
    /// # Errors
    /// What the store says.
    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>>;

    /// Reads parts of objects, all at once; returns each in its place. What is late is Unavailable.
    ///
    /// # Errors
    /// Of each part: NotFound where there is no such object, Data where it ends before the part, or what the store says.
    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>>;

    /// Writes an object, whole or not at all. The name was never given before.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, name: &str, bytes: Bytes, limit: Duration) -> Result<()>;

    /// Makes an empty object anew.
    ///
    /// # Errors
    /// What the store says.
    fn touch(&self, name: &str, limit: Duration) -> Result<()>;

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// What the store says.
    fn delete(&self, name: &str, limit: Duration) -> Result<()>;

    /// Removes what writers that died left half below a folder, where the store does not do that itself.
    fn tidy(&self, _below: &str) {}

    /// Returns how many caches it is made of, where it is made of other processes'.
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

/// Averages of fewer reads than these say little.
const READS_FEW: u32 = 8;

/// What others have room for, and what it takes to read it there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Elsewhere {
    /// Bytes of rows; nothing while nobody is asked.
    pub room: u64,
    /// What a read takes whatever its size, in nanoseconds; `None` while nothing was read.
    pub request_nanos: Option<f64>,
    /// What each byte takes.
    pub byte_nanos: Option<f64>,
    /// How many reads these are averages of.
    pub reads: u32,
}

impl Elsewhere {
    /// Says whether what reading there takes is hardly known, although there is room.
    pub fn is_guess(&self) -> bool {
        self.room > 0 && self.reads < READS_FEW
    }
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The object's name.
    pub name: String,
    /// Which of its bytes.
    pub range: Range<u64>,
}

/// A store to keep rows in, and how much.
#[derive(Clone)]
pub struct SharedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The most bytes that all who share it keep there together.
    pub bytes: u64,
    /// Measures what reads take, and when the store is asked again. Decides what is read and what is computed, never a row.
    pub watch: Arc<dyn Stopwatch>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("store", &self.store).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
