//! Rows in memory, and the division of memory between rows, copies of peers' rows, and the index.
//!
//! | module | |
//! |---|---|
//! | `accounts` | the bytes of rows and of the index, which know neither prefixes nor other tiers |
//!
//! Rows in memory have no blocks. They are in segments of the index itself, so a lookup takes a row directly
//! ([`Answer::take`](crate::rows::answer::Answer::take)) instead of reading it. Rows that only wait to be written to
//! lower tiers are there, too.
//!
//! Invariant: the lock on the accounts is not held while evicted rows are removed from their index.

pub(crate) mod accounts;

use std::sync::atomic::AtomicU64;

use crate::lock::lock;
use crate::quota::accounts::{QuotaAccounts, Victim};
use crate::quota::value::Uses;
use crate::rows::index::Index;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::{Counters, PrefixStats, Stats, TierStats};
use crate::tiers::memory::accounts::MemoryTier;
use crate::tiers::tier::Tier;

impl MemoryTier {
    /// Reserves memory for rows of a prefix, up to `bytes`; returns the granted bytes. The rows of its victims are
    /// evicted.
    pub(crate) fn reserve(&self, cache: &CacheState, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(cache, |accounts, uses| accounts.reserve(state.key, bytes, uses))
    }

    /// As [`MemoryTier::reserve`], for copies of peers' rows.
    pub(crate) fn reserve_copy(&self, cache: &CacheState, state: &PrefixState, bytes: u64) -> u64 {
        self.make_room(cache, |accounts, uses| accounts.reserve_copy(state.key, bytes, uses))
    }

    /// Evicts rows until the index fits beside them.
    pub(crate) fn shrink(&self, cache: &CacheState) {
        let quota = self.row_quota();
        self.make_room(cache, |accounts, uses| ((), accounts.set_quota(quota, uses)));
    }

    /// Changes the accounts, and evicts the rows of the victims.
    fn make_room<T>(
        &self,
        cache: &CacheState,
        change: impl FnOnce(&mut QuotaAccounts, &Uses) -> (T, Vec<Victim>),
    ) -> T {
        let (done, victims) = {
            let mut accounts = self.accounts();
            change(&mut accounts, &lock(cache.uses()))
        };
        cache.evict_segments(&victims);
        done
    }
}

impl Tier for MemoryTier {
    fn wants_rows(&self, cache: &CacheState, state: &PrefixState, bytes: u64, _: Option<f64>) -> bool {
        self.accounts().has_room(state.key, bytes, &lock(cache.uses()))
    }

    fn hits<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.memory_hits
    }

    fn add_stats(&self, stats: &mut Stats) {
        stats.index_bytes = self.index_bytes();
        stats.memory = TierStats { bytes: self.accounts().used() + stats.index_bytes, quota: self.quota() };
    }

    fn add_prefix_stats(&self, index: &Index, stats: &mut PrefixStats) {
        stats.memory_rows = index.segments().map(|s| s.table.rows() as u64).sum();
        stats.memory_bytes = index.segments().map(|s| s.table.bytes() as u64).sum();
    }
}
