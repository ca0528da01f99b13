//! Caches the bytes of remote files on the local disk, once for all threads, processes and jobs of a machine.
//!
//! A file is cut into pages of [`PAGE_BYTES`]. A page is found by its pinned file and its number; the source that
//! fetched it does not matter. Pages are kept in the folder of the rows, under the same quota and the same rule of
//! eviction ([`crate::quota::value`]): nanoseconds to fetch a byte × recent passes over the source.
//!
//! ```text
//! request(range) ─▶ pages on disk?  ── no ─▶ in flight here?  ── no ─▶ by another process? ─ no ─▶ fetch runs of pages
//!       │                 │ yes                   │ yes                     │ yes                      │
//!     wait() ◀── read, checked ◀── wait for it ◀──┘      look again ◀───────┘     the writer keeps it ◀┘
//! ```
//!
//! | module | |
//! |---|---|
//! | `request` | a range: which of its pages are here, which must be fetched, and the wait for them |
//! | `fetch` | a read from the store: delivers its bytes to the waiting threads, and to the writer |
//! | `in_flight` | a page that is being fetched, and that several threads wait for |
//! | `claim` | which process fetches a page |
//! | `index` | which pages are in which files, of this process and of others |
//! | `writer` | the thread that writes pages |
//! | `format` | the file of pages, to which pages are appended |
//! | `checksums` | the bytes of a page, and their sums |
//!
//! Invariants: a read returns the bytes of the pinned file, or an error. Pages that cannot be read from disk are
//! fetched. No request waits for a write, nor longer than [`WAIT_MAX`] for another process. Where pages would not be
//! kept, only the requested range is fetched, without the rest of its pages.

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

/// Bytes of a page; the last page of a file is shorter. Smaller pages cost more requests; larger ones more bytes before
/// the first row, where rows are read in any order.
pub const PAGE_BYTES: u64 = 1 << 20;
/// Consecutive pages are fetched together, up to this many bytes.
const RUN_BYTES_MAX: u64 = 8 << 20;
/// The most pages of a process that are in flight or wait to be written before pages are fetched only on demand.
const AHEAD_PAGES_MAX: usize = 128;
/// The longest wait for a page that another process fetches. Then this process fetches it, too.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The interval of looking for such a page.
const WAIT_STEP: Duration = Duration::from_millis(3);

/// Receives the result of a read, once.
pub type Done = Box<dyn FnOnce(Result<Bytes>) + Send>;
/// Begins to read a range of a file from its store, and returns at once.
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

/// The state that all sources of a cache share.
#[derive(Debug, Default)]
pub(crate) struct PageCacheState {
    index: PageIndex,
    /// Pages that are being fetched, or wait to be written.
    in_flight: Mutex<HashMap<PageKey, Arc<InFlight>>>,
    /// Requests to the store that are running.
    running: AtomicUsize,
    by_key: Mutex<HashMap<PrefixKey, Arc<SourceState>>>,
    pub(crate) queue: Queue<ArrivedPage>,
}

/// A source of remote files: its description and its counters.
#[derive(Debug)]
pub(crate) struct SourceState {
    key: PrefixKey,
    what: String,
    /// Bytes of its files; 0 while this is not known.
    bytes: AtomicU64,
    counters: SourceCounters,
    /// The bytes that fit into the open file of pages of this process.
    room_left: AtomicU64,
    pub(crate) users: Mutex<Weak<InUse>>,
}

/// The cached files of a source. Cheap to share.
#[derive(Debug)]
pub struct PageCache {
    cache: Arc<CacheState>,
    state: Arc<SourceState>,
    _in_use: Arc<InUse>,
}

/// A file of a source, which is read through its pages.
#[derive(Clone)]
pub struct PagedFile {
    source: Arc<PageCache>,
    key: FileKey,
    size: u64,
    fetch: Fetch,
}

impl PageCache {
    /// Opens the source of this name; `bytes` is its total size, 0 where it is not known.
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

    /// Returns a file of the source, with its pinned key and size. `fetch` reads it from the store.
    pub fn file(self: &Arc<Self>, key: FileKey, size: u64, fetch: Fetch) -> PagedFile {
        PagedFile { source: self.clone(), key, size, fetch }
    }

    /// Returns the counts of this source since the cache was opened.
    pub fn stats(&self) -> SourceStats {
        self.state.stats(self.cache.pages())
    }
}

impl PageCacheState {
    /// Returns the guard of a source that this process uses.
    pub(crate) fn in_use(&self, source: PrefixKey) -> Option<Arc<InUse>> {
        let state = lock(&self.by_key).get(&source).cloned()?;
        lock(&state.users).upgrade()
    }

    /// Forgets a file of pages that is gone.
    pub(crate) fn forget(&self, cache: &CacheState, block: u32) {
        self.index.forget_file(cache, block);
    }

    /// Removes a page from those in flight.
    fn remove_in_flight(&self, key: &PageKey) {
        lock(&self.in_flight).remove(key);
    }

    /// Returns the counts of each source, by key.
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
