//! Divides memory between rows, copies of peers' rows, and the index, which evicts rows.
//!
//! Invariant: the lock on the accounts is not held while evicted rows are removed from their index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::{lock, write};
use crate::quota::accounts::{LastHit, QuotaAccounts, Victim};
use crate::quota::value::Uses;
use crate::rows::index::ROW_BYTES;
use crate::state::{CacheState, PrefixState};
use crate::stats::add;

/// The index of tiers and of rows that filters removed takes at most half of the memory, or this, if that is more.
const INDEX_BYTES_MIN: u64 = 64 << 20;
/// With less memory left for the index, no rows are brought that could not be found.
const INDEX_ROOM: u64 = 64 << 10;

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

impl CacheState {
    /// Estimates how many of `rows` more rows of a prefix would be kept, by the size of earlier ones.
    pub(crate) fn room(&self, state: &PrefixState, rows: usize) -> usize {
        let Some(row_bytes) = lock(&self.uses).row_bytes(state.key) else { return rows };
        let row_bytes = row_bytes + ROW_BYTES as f64;
        let bytes = (rows as f64 * row_bytes) as u64;
        if self.disk.as_ref().is_some_and(|tier| tier.wants_rows(state.key, bytes, &self.uses)) {
            return rows;
        }
        if self.store_of(state).is_some_and(|store| store.wants(bytes, self.cost(state))) {
            return rows;
        }
        let mut memory = lock(&self.memory);
        match memory.has_room(state.key, bytes, &lock(&self.uses)) {
            true => rows,
            false => (memory.free() as f64 / row_bytes) as usize,
        }
    }

    /// Reserves memory for rows of a prefix, up to `bytes`; returns the granted bytes. The rows of its victims are
    /// evicted.
    pub(crate) fn reserve(&self, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(|memory, uses| memory.reserve(state.key, bytes, uses))
    }

    /// As [`CacheState::reserve`], for copies of peers' rows.
    pub(crate) fn reserve_copy(&self, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(|memory, uses| memory.reserve_copy(state.key, bytes, uses))
    }

    /// Reserves memory if it is free; returns whether it did.
    pub(crate) fn reserve_free(&self, bytes: u64) -> bool {
        lock(&self.memory).reserve_free(bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.memory).give_back(bytes);
    }

    /// Holds reserved memory for a segment, which may have copies of peers' rows.
    pub(crate) fn hold(&self, state: &PrefixState, segment: u32, bytes: u64, last_hit: Arc<LastHit>, is_copy: bool) {
        let block = Victim { prefix: state.key, block: segment };
        let mut memory = lock(&self.memory);
        if is_copy {
            memory.hold_copy(block, bytes, last_hit);
        } else {
            memory.hold(block, bytes, last_hit);
        }
    }

    /// Counts memory of the index; returns whether there was any left for it. Call [`CacheState::shrink`] afterwards,
    /// when no index is locked.
    pub(crate) fn count_index(&self, bytes: u64) -> bool {
        let max = INDEX_BYTES_MIN.max(self.memory_quota / 2);
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Counts memory of the index while the result lives, if there is any left for it. Call [`CacheState::shrink`] as
    /// for [`CacheState::count_index`].
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

    /// Evicts rows from memory until the index fits beside them.
    pub(crate) fn shrink(&self) {
        let quota = self.memory_quota.saturating_sub(self.index_bytes.load(Ordering::Relaxed));
        self.make_room(|memory, uses| ((), memory.set_quota(quota, uses)));
    }

    /// Changes the accounts, and evicts the rows of the victims.
    fn make_room<T>(&self, change: impl FnOnce(&mut QuotaAccounts, &Uses) -> (T, Vec<Victim>)) -> T {
        let (done, victims) = {
            let mut memory = lock(&self.memory);
            change(&mut memory, &lock(&self.uses))
        };
        self.evict(&victims);
        done
    }

    fn evict(&self, victims: &[Victim]) {
        for victim in victims {
            let Some(state) = lock(&self.prefixes).get(&victim.prefix).cloned() else { continue };
            let mut index = write(&state.index);
            let rows = index.segment(victim.block).map_or(0, |segment| segment.table.rows());
            index.drop_segment(victim.block);
            add(&state.counters.memory_evicted, rows);
        }
    }
}
