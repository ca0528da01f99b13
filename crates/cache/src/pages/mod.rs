//! Caches the bytes of remote files on the local disk, once for all threads, processes and jobs of a machine.
//!
//! A file is cut into pages of [`PAGE_BYTES`](page::PAGE_BYTES). A page is found by its pinned file and its number, for
//! any source that fetched it. Pages are kept in the folder of the rows, under the same quota and the same rule of
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
//! | `page`, `state` | a page of a file; what all sources share |
//! | `index`, `look` | which pages are in which files, of this process and of others; looking for those of others |
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
mod look;
pub(crate) mod page;
pub(crate) mod request;
pub(crate) mod state;
pub(crate) mod writer;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Result;

use crate::key::{FileKey, PrefixKey};
use crate::lock::lock;
use crate::pages::state::SourceState;
use crate::state::CacheState;
use crate::state::prefix::InUse;
use crate::stats::SourceStats;

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
        let new = || Arc::new(SourceState::new(key, what));
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

impl fmt::Debug for PagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedFile").field("key", &self.key).field("size", &self.size).finish_non_exhaustive()
    }
}
