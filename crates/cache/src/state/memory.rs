//! Who has the memory: rows, copies of what peers have, and what finds rows below, which drives rows out.
//!
//! Invariant: the lock on what has memory is not held while rows that lost theirs are forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::{lock, write};
use crate::quota::accounts::{LastHit, QuotaAccounts, Victim};
use crate::quota::value::Uses;
use crate::rows::index::ROW_BYTES;
use crate::state::{CacheState, PrefixState};
use crate::stats::add;

/// What finds rows below and rows that filters removed takes at most half of the memory, or this where that is more.
const INDEX_BYTES_MIN: u64 = 64 << 20;
/// With less left for that, nothing more is brought that could not be found.
const INDEX_ROOM: u64 = 64 << 10;

/// Memory that finds rows, counted as such as long as this lives.
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
    /// Returns how many of `rows` more rows of a prefix would be kept: a guess, by the size of those before.
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

    /// Takes memory for rows of a prefix, up to `bytes`; returns what there is. The rows that had it are gone.
    pub(crate) fn reserve(&self, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(|memory, uses| memory.reserve(state.key, bytes, uses))
    }

    /// Takes memory for copies of what peers have, up to `bytes`; as [`CacheState::reserve`].
    pub(crate) fn reserve_copy(&self, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(|memory, uses| memory.reserve_copy(state.key, bytes, uses))
    }

    /// Takes memory if nobody has to make room; says whether it did.
    pub(crate) fn reserve_free(&self, bytes: u64) -> bool {
        lock(&self.memory).reserve_free(bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.memory).give_back(bytes);
    }

    /// Says whose the reserved memory is, and whether the rows are copies of what peers have.
    pub(crate) fn hold(&self, state: &PrefixState, segment: u32, bytes: u64, last_hit: Arc<LastHit>, is_copy: bool) {
        let block = Victim { prefix: state.key, block: segment };
        let mut memory = lock(&self.memory);
        if is_copy {
            memory.hold_copy(block, bytes, last_hit);
        } else {
            memory.hold(block, bytes, last_hit);
        }
    }

    /// Counts memory that finds rows; says whether there is any left for it. Call [`CacheState::shrink`] when no index is locked.
    pub(crate) fn count_index(&self, bytes: u64) -> bool {
        let max = INDEX_BYTES_MIN.max(self.memory_quota / 2);
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes memory that finds rows, if there is any left for it. Call [`CacheState::shrink`] as for [`CacheState::count_index`].
    pub(crate) fn index_room(&self, bytes: u64) -> Option<IndexRoom> {
        self.count_index(bytes).then(|| IndexRoom { taken: self.index_bytes.clone(), bytes })
    }

    /// Says whether more can be found at all.
    pub(crate) fn has_index_room(&self) -> bool {
        let has_room = self.count_index(INDEX_ROOM);
        self.uncount_index(if has_room { INDEX_ROOM } else { 0 });
        has_room
    }

    pub(crate) fn uncount_index(&self, bytes: u64) {
        self.index_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Drops rows from memory until what finds rows fits beside them.
    pub(crate) fn shrink(&self) {
        let quota = self.memory_quota.saturating_sub(self.index_bytes.load(Ordering::Relaxed));
        self.make_room(|memory, uses| ((), memory.set_quota(quota, uses)));
    }

    /// Changes what has memory; the rows that lose theirs are gone.
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
