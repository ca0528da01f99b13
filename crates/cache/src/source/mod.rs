//! Bytes of remote files, brought here once for all threads, processes and jobs of a machine.
//!
//! A file is cut into pages of [`PAGE_BYTES`]. A page is found by the file, as it was pinned, and its number, whichever source
//! brought it; it is kept in the folder that rows are kept in, under the same quota and by the same rule of what stays
//! ([`crate::value`]): nanoseconds to fetch a byte × passes over the source lately.
//!
//! ```text
//! request(range) ─▶ pages on disk?  ── no ─▶ asked for here? ── no ─▶ by another process? ── no ─▶ fetch (runs of pages)
//!       │                 │ yes                   │ yes                     │ yes                       │
//!     wait() ◀── read, checked ◀── wait for it ◀──┘      look again ◀───────┘     the writer keeps it ◀─┘
//! ```
//!
//! | file | |
//! |---|---|
//! | `segment` | the format: pages that are added to a file, one after another |
//! | `blocks` | the bytes of a page, and their sums |
//! | `pages` | which pages are in which files, of this process and of others |
//! | `claim` | which process fetches a page |
//! | `flight` | a page on its way, that several threads wait for |
//! | `request` | a range: what of it is there, what has to be fetched, and waiting for it |
//! | `landing` | what becomes of bytes that arrive |
//! | `writer` | the thread that writes |
//!
//! Invariants: bytes that are given are those of the pinned file, or it is an error; what cannot be read here is fetched. Nothing
//! that is asked for waits for a disk, or for another process longer than [`WAIT_MAX`]. What would not be kept is fetched
//! as it was asked for, without the rest of its page.

mod blocks;
mod claim;
mod flight;
mod landing;
mod pages;
mod request;
mod segment;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Result;

use crate::disk::Queue;
use crate::lock::lock;
use crate::shared::{InUse, Shared};
use crate::stats::{SourceCounters, SourceStats};
use crate::{FileKey, PrefixKey};
use flight::Flight;
use landing::Arrived;
use pages::Pages;

pub use request::Request;
pub(crate) use segment::{Head, check, count, unused_from};
pub(crate) use writer::run;

/// Bytes of a page; the last one of a file is shorter. Smaller ones cost more requests, larger ones more bytes before the first
/// row where rows are read in any order.
pub const PAGE_BYTES: u64 = 1 << 20;
/// Pages that follow each other are fetched together, up to so many bytes.
const RUN_BYTES_MAX: u64 = 8 << 20;
/// Pages of a process that are on their way, or wait to be written, before no more are asked for ahead of whoever waits for them.
const AHEAD_PAGES_MAX: usize = 128;
/// How long a page that others fetch is waited for, before it is fetched all the same.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often it is looked for meanwhile.
const WAIT_STEP: Duration = Duration::from_millis(3);

/// Told once what became of a read.
pub type Done = Box<dyn FnOnce(Result<Bytes>) + Send>;
/// Begins to read a range of a file from where it is, and returns at once.
pub type Fetch = Arc<dyn Fn(Range<u64>, Done) + Send + Sync>;

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

/// What the sources of a cache have in common.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pages: Pages,
    /// Pages that are on their way, or wait to be written.
    flights: Mutex<HashMap<PageKey, Arc<Flight>>>,
    /// Requests that are under way.
    running: AtomicUsize,
    cells: Mutex<HashMap<PrefixKey, Arc<Cell>>>,
    pub(crate) queue: Queue<Arrived>,
}

/// A source, for the accounts.
#[derive(Debug)]
pub(crate) struct Cell {
    key: PrefixKey,
    what: String,
    /// Bytes of its files; 0 while that is not known.
    bytes: AtomicU64,
    counters: SourceCounters,
    /// What the file of pages takes that this process adds to.
    room_left: AtomicU64,
    pub(crate) users: Mutex<Weak<InUse>>,
}

/// Remote files that are read through the folder. Cheap to share.
#[derive(Debug)]
pub struct Source {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    _in_use: Arc<InUse>,
}

/// One of them.
#[derive(Clone)]
pub struct SourceFile {
    source: Arc<Source>,
    key: FileKey,
    size: u64,
    fetch: Fetch,
}

impl Source {
    /// Returns a source of this name; `bytes` is how much there is of it, 0 where that is not known.
    pub(crate) fn open(shared: &Arc<Shared>, what: &str, bytes: u64) -> Arc<Self> {
        let key = PrefixKey::of_source(what);
        let sources = shared.sources();
        let new = || {
            Arc::new(Cell {
                key,
                what: what.to_owned(),
                bytes: AtomicU64::new(0),
                counters: SourceCounters::default(),
                room_left: AtomicU64::new(0),
                users: Mutex::default(),
            })
        };
        let cell = lock(&sources.cells).entry(key).or_insert_with(new).clone();
        if bytes > 0 {
            cell.bytes.store(bytes, Ordering::Relaxed);
        }
        let in_use = shared.using(&cell.users, key);
        if let Some(tier) = shared.disk() {
            sources.pages.look_around(shared, tier);
        }
        Arc::new(Self { shared: shared.clone(), cell, _in_use: in_use })
    }

    /// Returns one of its files, as it was pinned, and how to read it where it is.
    pub fn file(self: &Arc<Self>, key: FileKey, size: u64, fetch: Fetch) -> SourceFile {
        SourceFile { source: self.clone(), key, size, fetch }
    }

    /// Returns what was read of it since the cache was opened.
    pub fn stats(&self) -> SourceStats {
        self.cell.stats(self.shared.sources())
    }
}

impl Sources {
    /// Returns the lock that this process holds on a source that it uses.
    pub(crate) fn in_use(&self, source: PrefixKey) -> Option<Arc<InUse>> {
        let cell = lock(&self.cells).get(&source).cloned()?;
        lock(&cell.users).upgrade()
    }

    /// Forgets a file of pages that is gone.
    pub(crate) fn forget(&self, shared: &Shared, block: u32) {
        self.pages.forget_segment(shared, block);
    }

    /// Takes a page out of those that are on their way.
    fn landed(&self, key: &PageKey) {
        lock(&self.flights).remove(key);
    }

    /// Returns what was read of each source, by key.
    pub(crate) fn stats(&self) -> Vec<SourceStats> {
        let cells: Vec<Arc<Cell>> = lock(&self.cells).values().cloned().collect();
        let mut stats: Vec<SourceStats> = cells.iter().map(|cell| cell.stats(self)).collect();
        stats.sort_by_key(|source| source.key);
        stats
    }
}

impl Cell {
    fn stats(&self, sources: &Sources) -> SourceStats {
        SourceStats {
            key: self.key,
            what: self.what.clone(),
            bytes: self.bytes.load(Ordering::Relaxed),
            pages: sources.pages.of(self.key),
            counts: self.counters.counts(),
        }
    }
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFile").field("key", &self.key).field("size", &self.size).finish_non_exhaustive()
    }
}
