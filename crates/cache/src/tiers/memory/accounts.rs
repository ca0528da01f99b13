//! The accounts of memory: the bytes of rows and of the index, and which segments are evicted when others need the room.
//!
//! Invariant: the memory of the index is counted before it is used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use forebay_data::Memory;

use crate::lock::lock;
use crate::options::Options;
use crate::quota::accounts::{LastHit, QuotaAccounts, Victim};

/// The index of tiers and of rows that filters removed takes at most half of the memory, or this, if that is more.
const INDEX_BYTES_MIN: u64 = 64 << 20;
/// With less memory left for the index, no rows are brought that could not be found.
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

/// Memory of the index that is counted while this lives.
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

    /// Reserves memory if it is free; returns whether it did.
    pub(crate) fn reserve_free(&self, bytes: u64) -> bool {
        lock(&self.accounts).reserve_free(bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.accounts).give_back(bytes);
    }

    /// Holds reserved memory for a segment, which may have copies of peers' rows.
    pub(crate) fn hold(&self, segment: Victim, bytes: u64, last_hit: Arc<LastHit>, is_copy: bool) {
        let mut accounts = lock(&self.accounts);
        if is_copy {
            accounts.hold_copy(segment, bytes, last_hit);
        } else {
            accounts.hold(segment, bytes, last_hit);
        }
    }

    /// Counts memory of the index; returns whether there was any left for it. Call `shrink` afterwards,
    /// when no index is locked.
    pub(crate) fn count_index(&self, bytes: u64) -> bool {
        let max = INDEX_BYTES_MIN.max(self.quota / 2);
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Counts memory of the index while the result lives, if there is any left for it. Call `shrink` as
    /// for [`MemoryTier::count_index`].
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

    pub(super) fn accounts(&self) -> MutexGuard<'_, QuotaAccounts> {
        lock(&self.accounts)
    }

    pub(super) fn quota(&self) -> u64 {
        self.quota
    }

    /// Returns the bytes of the index.
    pub(super) fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the index leaves to rows.
    pub(super) fn row_quota(&self) -> u64 {
        self.quota.saturating_sub(self.index_bytes())
    }
}
