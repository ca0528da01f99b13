//! Bytes of remote files, brought here once for all threads, processes and jobs of a machine.
//!
//! A file is cut into pages of [`PAGE_BYTES`]. A page is found by the file, as it was pinned, and its number, whichever source
//! brought it; it is kept in the folder that rows are kept in, under the same quota and by the same rule of what stays
//! ([`crate::quota::value`]): nanoseconds to fetch a byte × passes over the source lately.
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

mod checksums;
mod claim;
mod fetch;
pub(crate) mod format;
mod in_flight;
mod index;
pub(crate) mod request;
pub(crate) mod writer;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Result;

use crate::key::{FileKey, PrefixKey};
use crate::lock::lock;
use crate::pages::fetch::ArrivedPage;
use crate::pages::in_flight::InFlight;
use crate::pages::index::PageIndex;
use crate::state::{CacheState, InUse};
use crate::stats::{SourceCounters, SourceStats};
use crate::tiers::block::queue::Queue;

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
pub(crate) struct PageCacheState {
    index: PageIndex,
    /// Pages that are on their way, or wait to be written.
    in_flight: Mutex<HashMap<PageKey, Arc<InFlight>>>,
    /// Requests that are under way.
    running: AtomicUsize,
    by_key: Mutex<HashMap<PrefixKey, Arc<SourceState>>>,
    pub(crate) queue: Queue<ArrivedPage>,
}

/// A source, for the accounts.
#[derive(Debug)]
pub(crate) struct SourceState {
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
pub struct PageCache {
    cache: Arc<CacheState>,
    state: Arc<SourceState>,
    _in_use: Arc<InUse>,
}

/// One of them.
#[derive(Clone)]
pub struct PagedFile {
    source: Arc<PageCache>,
    key: FileKey,
    size: u64,
    fetch: Fetch,
}

impl PageCache {
    /// Returns a source of this name; `bytes` is how much there is of it, 0 where that is not known.
    pub(crate) fn open(cache: &Arc<CacheState>, what: &str, bytes: u64) -> Arc<Self> {
        let key = PrefixKey::of_source(what);
        let shared = cache.pages();
        let new = || {
            Arc::new(SourceState {
                key,
                what: what.to_owned(),
                bytes: AtomicU64::new(0),
                counters: SourceCounters::default(),
                room_left: AtomicU64::new(0),
                users: Mutex::default(),
            })
        };
        let state = lock(&shared.by_key).entry(key).or_insert_with(new).clone();
        if bytes > 0 {
            state.bytes.store(bytes, Ordering::Relaxed);
        }
        let in_use = cache.using(&state.users, key);
        if let Some(disk) = cache.disk() {
            shared.index.look_around(cache, disk);
        }
        Arc::new(Self { cache: cache.clone(), state, _in_use: in_use })
    }

    /// Returns one of its files, as it was pinned, and how to read it where it is.
    pub fn file(self: &Arc<Self>, key: FileKey, size: u64, fetch: Fetch) -> PagedFile {
        PagedFile { source: self.clone(), key, size, fetch }
    }

    /// Returns what was read of it since the cache was opened.
    pub fn stats(&self) -> SourceStats {
        self.state.stats(self.cache.pages())
    }
}

impl PageCacheState {
    /// Returns the lock that this process holds on a source that it uses.
    pub(crate) fn in_use(&self, source: PrefixKey) -> Option<Arc<InUse>> {
        let state = lock(&self.by_key).get(&source).cloned()?;
        lock(&state.users).upgrade()
    }

    /// Forgets a file of pages that is gone.
    pub(crate) fn forget(&self, cache: &CacheState, block: u32) {
        self.index.forget_file(cache, block);
    }

    /// Takes a page out of those that are on their way.
    fn remove_in_flight(&self, key: &PageKey) {
        lock(&self.in_flight).remove(key);
    }

    /// Returns what was read of each source, by key.
    pub(crate) fn stats(&self) -> Vec<SourceStats> {
        let by_key: Vec<Arc<SourceState>> = lock(&self.by_key).values().cloned().collect();
        let mut stats: Vec<SourceStats> = by_key.iter().map(|state| state.stats(self)).collect();
        stats.sort_by_key(|source| source.key);
        stats
    }
}

impl SourceState {
    fn stats(&self, shared: &PageCacheState) -> SourceStats {
        SourceStats {
            key: self.key,
            what: self.what.clone(),
            bytes: self.bytes.load(Ordering::Relaxed),
            pages: shared.index.of(self.key),
            counts: self.counters.counts(),
        }
    }
}

impl fmt::Debug for PagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedFile").field("key", &self.key).field("size", &self.size).finish_non_exhaustive()
    }
}
