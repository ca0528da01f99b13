//! What all sources of a cache share: which pages are where, in flight, or wait to be written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;

use crate::key::PrefixKey;
use crate::lock::lock;
use crate::pages::claim::PageClaim;
use crate::pages::in_flight::InFlight;
use crate::pages::index::PageIndex;
use crate::pages::page::PageKey;
use crate::state::prefix::InUse;
use crate::stats::{SourceCounters, SourceStats};
use crate::tiers::block::queue::Queue;
use crate::tiers::memory::accounts::MemoryTier;

/// The state that all sources of a cache share.
#[derive(Debug, Default)]
pub(crate) struct PageCacheState {
    pub(super) index: PageIndex,
    /// Pages that are being fetched, or wait to be written.
    pub(super) in_flight: Mutex<HashMap<PageKey, Arc<InFlight>>>,
    /// Requests to the store that are running.
    pub(super) running: AtomicUsize,
    pub(super) by_key: Mutex<HashMap<PrefixKey, Arc<SourceState>>>,
    pub(crate) queue: Queue<ArrivedPage>,
}

/// A source of remote files: its description and its counters.
#[derive(Debug)]
pub(crate) struct SourceState {
    pub(super) key: PrefixKey,
    pub(super) what: String,
    /// Bytes of its files; 0 while this is not known.
    pub(super) bytes: AtomicU64,
    pub(super) counters: SourceCounters,
    /// The bytes that fit into the open file of pages of this process.
    pub(super) room_left: AtomicU64,
    pub(crate) users: Mutex<Weak<InUse>>,
}

/// A page that waits to be written. Its claim is released when it is.
#[derive(Debug)]
pub(crate) struct ArrivedPage {
    pub(super) state: Arc<SourceState>,
    pub(super) key: PageKey,
    pub(super) bytes: Bytes,
    pub(super) claim: Option<PageClaim>,
}

impl PageCacheState {
    /// Returns the guard of a source that this process uses.
    pub(crate) fn in_use(&self, source: PrefixKey) -> Option<Arc<InUse>> {
        let state = lock(&self.by_key).get(&source).cloned()?;
        lock(&state.users).upgrade()
    }

    /// Forgets a file of pages that is gone.
    pub(crate) fn forget(&self, memory: &MemoryTier, block: u32) {
        self.index.forget_file(memory, block);
    }

    /// Removes a page from those in flight.
    pub(super) fn remove_in_flight(&self, key: &PageKey) {
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
    pub(super) fn new(key: PrefixKey, what: &str) -> Self {
        Self {
            key,
            what: what.to_owned(),
            bytes: AtomicU64::new(0),
            counters: SourceCounters::default(),
            room_left: AtomicU64::new(0),
            users: Mutex::default(),
        }
    }

    pub(super) fn stats(&self, shared: &PageCacheState) -> SourceStats {
        SourceStats {
            key: self.key,
            what: self.what.clone(),
            bytes: self.bytes.load(Ordering::Relaxed),
            pages: shared.index.of(self.key),
            counts: self.counters.counts(),
        }
    }
}
