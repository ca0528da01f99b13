//! Rows in memory, and the division of memory between rows, copies of peers' rows, and the index.
//!
//! Rows in memory have no blocks. They are in segments of the index itself, so a lookup takes a row directly
//! ([`Answer::take`](crate::rows::prefix::Answer::take)) instead of reading it. Rows that only wait to be written to
//! lower tiers are there, too.
//!
//! Invariants: the memory of the index is counted before it is used. The lock on the accounts is not held while evicted
//! rows are removed from their index.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay_data::Memory;

use crate::cache::Options;
use crate::lock::lock;
use crate::quota::accounts::{LastHit, QuotaAccounts, Victim};
use crate::quota::value::Uses;
use crate::rows::index::Index;
use crate::state::{CacheState, PrefixState};
use crate::stats::{Counters, PrefixStats, Stats, TierStats};
use crate::tiers::tier::Tier;

/// The index of tiers and of rows that filters removed takes at most half of the memory, or this, if that is more.
const INDEX_BYTES_MIN: u64 = 64 << 20;
/// With less memory left for the index, no pages are kept and no snapshots made, because they could not be indexed.
const INDEX_ROOM: u64 = 64 << 10;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct MemoryTier {
    accounts: Mutex<QuotaAccounts>,
    quota: u64,
    /// Memory for copies of rows that only wait to be written.
    passing: Memory,
    index_bytes: Arc<AtomicU64>,
}

/// Memory of the index that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct IndexRoom {
    taken: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for IndexRoom {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl MemoryTier {
    pub(crate) fn new(options: &Options) -> Self {
        let passing = match (&options.disk, &options.store) {
            (None, None) => Memory::default(),
            _ => Memory::reused(),
        };
        let accounts = Mutex::new(QuotaAccounts::new(options.memory));
        Self { accounts, quota: options.memory, passing, index_bytes: Arc::default() }
    }

    /// Says whether any rows are kept in memory.
    pub(crate) fn is_used(&self) -> bool {
        self.quota > 0
    }

    pub(crate) fn passing(&self) -> &Memory {
        &self.passing
    }

    /// Returns the bytes that are neither held nor reserved.
    pub(crate) fn free(&self) -> u64 {
        lock(&self.accounts).free()
    }

    /// Reserves memory for rows of a prefix, up to `bytes`; returns the granted bytes. The rows of its victims are
    /// evicted.
    pub(crate) fn reserve(&self, cache: &CacheState, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(cache, |accounts, uses| accounts.reserve(state.key, bytes, uses))
    }

    /// As [`MemoryTier::reserve`], for copies of peers' rows.
    pub(crate) fn reserve_copy(&self, cache: &CacheState, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(cache, |accounts, uses| accounts.reserve_copy(state.key, bytes, uses))
    }

    /// Reserves memory if it is free; returns whether it did.
    pub(crate) fn reserve_free(&self, bytes: u64) -> bool {
        lock(&self.accounts).reserve_free(bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.accounts).give_back(bytes);
    }

    /// Holds reserved memory for a segment, which may have copies of peers' rows.
    pub(crate) fn hold(&self, state: &PrefixState, segment: u32, bytes: u64, last_hit: Arc<LastHit>, is_copy: bool) {
        let block = Victim { prefix: state.key, block: segment };
        let mut accounts = lock(&self.accounts);
        if is_copy {
            accounts.hold_copy(block, bytes, last_hit);
        } else {
            accounts.hold(block, bytes, last_hit);
        }
    }

    /// Counts memory of the index; returns whether there was enough. Call [`MemoryTier::shrink`] afterwards, when no
    /// index is locked.
    pub(crate) fn count_index(&self, bytes: u64) -> bool {
        let max = INDEX_BYTES_MIN.max(self.quota / 2);
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Counts memory of the index until the result is dropped, if there is enough. Call [`MemoryTier::shrink`] as for
    /// [`MemoryTier::count_index`].
    pub(crate) fn index_room(&self, bytes: u64) -> Option<IndexRoom> {
        self.count_index(bytes).then(|| IndexRoom { taken: self.index_bytes.clone(), bytes })
    }

    /// Says whether the index has memory left.
    pub(crate) fn has_index_room(&self) -> bool {
        let has_room = self.count_index(INDEX_ROOM);
        self.uncount_index(if has_room { INDEX_ROOM } else { 0 });
        has_room
    }

    pub(crate) fn uncount_index(&self, bytes: u64) {
        self.index_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Evicts rows until the index fits beside them.
    pub(crate) fn shrink(&self, cache: &CacheState) {
        let quota = self.quota.saturating_sub(self.index_bytes.load(Ordering::Relaxed));
        self.make_room(cache, |accounts, uses| ((), accounts.set_quota(quota, uses)));
    }

    /// Changes the accounts, and evicts the rows of the victims.
    fn make_room<T>(
        &self,
        cache: &CacheState,
        change: impl FnOnce(&mut QuotaAccounts, &Uses) -> (T, Vec<Victim>),
    ) -> T {
        let (done, victims) = {
            let mut accounts = lock(&self.accounts);
            change(&mut accounts, &lock(cache.uses()))
        };
        cache.evict_segments(&victims);
        done
    }
}

impl Tier for MemoryTier {
    fn wants_rows(&self, cache: &CacheState, state: &PrefixState, bytes: u64, _: Option<f64>) -> bool {
        let mut accounts = lock(&self.accounts);
        accounts.has_room(state.key, bytes, &lock(cache.uses()))
    }

    fn hits<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.memory_hits
    }

    fn add_stats(&self, stats: &mut Stats) {
        stats.index_bytes = self.index_bytes.load(Ordering::Relaxed);
        stats.memory = TierStats { bytes: lock(&self.accounts).used() + stats.index_bytes, quota: self.quota };
    }

    fn add_prefix_stats(&self, index: &Index, stats: &mut PrefixStats) {
        stats.memory_rows = index.segments().map(|s| s.table.rows() as u64).sum();
        stats.memory_bytes = index.segments().map(|s| s.table.bytes() as u64).sum();
    }
}
