//! The state that all tiers of a cache share: its memory, its disk, its prefixes, and their recent uses. The tiers are
//! in `tiers::list`.
//!
//! | module | |
//! |---|---|
//! | `prefix` | a prefix: its rows, counters, and whether it is in use |
//! | `blocks` | adds the rows of blocks to the index of their prefix, and forgets them |
//!
//! Lock order: `beginning`, and the lock under which the disk opens a prefix, before all others; the accounts of
//! memory, then `uses`; `prefixes`, then an index; the accounts of the disk, then `uses`; the search for pages, then
//! the accounts of the disk. Apart from these, an index is locked alone, never with the index of another prefix. During
//! a request to a store, no lock is held except one of its maintenance thread.

#![expect(clippy::disallowed_methods, reason = "a process draws the rank with which it waits for others")]

pub(crate) mod blocks;
pub(crate) mod prefix;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use forebay_core::Stopwatch;
use forebay_data::Schema;

use crate::key::PrefixKey;
use crate::lock::{lock, read, write};
use crate::pages::state::PageCacheState;
use crate::quota::accounts::Victim;
use crate::quota::value::Uses;
use crate::rows::index::{FILE_BYTES, Index, ROW_BYTES};
use crate::state::prefix::{InUse, PrefixState};
use crate::stats::{PrefixStats, Stats, add};
use crate::tiers::TierId;
use crate::tiers::block::format::BlockHeader;
use crate::tiers::disk::tier::DiskTier;
use crate::tiers::memory::accounts::MemoryTier;

/// See the module's documentation.
pub(crate) struct CacheState {
    memory: Arc<MemoryTier>,
    /// The tier of the local disk, whose folder also has pages of files and the locks of prefixes in use.
    disk: Option<Arc<DiskTier>>,
    uses: Mutex<Uses>,
    prefixes: Mutex<HashMap<PrefixKey, Arc<PrefixState>>>,
    /// Held while a use of a prefix begins, so that the prefix does not count as unused meanwhile.
    beginning: Mutex<()>,
    pages: PageCacheState,
    /// Measures the age of snapshots for peers, once peers are possible.
    exports_watch: OnceLock<Arc<dyn Stopwatch>>,
    /// Of two processes that want to compute the same rows, the one with the lower rank goes first.
    rank: u64,
    /// Held while a thread makes snapshots.
    snapshotting: Mutex<()>,
}

impl fmt::Debug for CacheState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheState").field("memory", &self.memory).field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl CacheState {
    pub(crate) fn new(memory: Arc<MemoryTier>, disk: Option<Arc<DiskTier>>) -> Self {
        Self {
            memory,
            disk,
            uses: Mutex::default(),
            prefixes: Mutex::default(),
            beginning: Mutex::default(),
            pages: PageCacheState::default(),
            exports_watch: OnceLock::new(),
            rank: uuid::Uuid::new_v4().as_u64_pair().0,
            snapshotting: Mutex::default(),
        }
    }

    pub(crate) fn memory(&self) -> &MemoryTier {
        &self.memory
    }

    pub(crate) fn disk(&self) -> Option<&DiskTier> {
        self.disk.as_deref()
    }

    pub(crate) fn pages(&self) -> &PageCacheState {
        &self.pages
    }

    /// Keeps rows in memory for peers to list from now on.
    pub(crate) fn export_rows(&self, watch: Arc<dyn Stopwatch>) {
        let _ = self.exports_watch.set(watch);
    }

    /// Returns the stopwatch for the age of snapshots for peers; `None` without peers.
    pub(crate) fn exports_watch(&self) -> Option<&dyn Stopwatch> {
        self.exports_watch.get().map(|watch| &**watch)
    }

    /// Evicts rows from memory until the index fits beside them.
    pub(crate) fn shrink(&self) {
        self.memory().shrink(self);
    }

    pub(crate) fn rank(&self) -> u64 {
        self.rank
    }

    /// Returns the mean bytes of a row of a prefix, if any was computed.
    pub(crate) fn row_bytes(&self, state: &PrefixState) -> Option<f64> {
        lock(&self.uses).row_bytes(state.key)
    }

    pub(crate) fn snapshotting(&self) -> &Mutex<()> {
        &self.snapshotting
    }

    /// Returns a prefix, if this process knows it.
    pub(crate) fn known_prefix(&self, key: PrefixKey) -> Option<Arc<PrefixState>> {
        lock(&self.prefixes).get(&key).cloned()
    }

    /// Returns the header of a block of a prefix.
    pub(crate) fn header(&self, state: &PrefixState, filtered_out: bool) -> BlockHeader {
        // Whole picoseconds, because headers are compared.
        let picos_per_byte = self.cost(state).map(|nanos| (nanos * 1000.0) as u64);
        let schema = (*state.schema).clone();
        BlockHeader { prefix: state.key, what: state.what.clone(), schema, filtered_out, picos_per_byte }
    }

    pub(crate) fn uses(&self) -> &Mutex<Uses> {
        &self.uses
    }

    /// Returns a prefix, and the guard that marks it as in use. Its tiers are not opened yet. Unused prefixes are
    /// freed; `leave` tells their tiers.
    pub(crate) fn prefix(
        &self,
        key: PrefixKey,
        schema: &Arc<Schema>,
        rows: u64,
        what: &str,
        leave: impl Fn(PrefixKey),
    ) -> (Arc<PrefixState>, Arc<InUse>) {
        let new = || Arc::new(PrefixState::new(key, schema, rows, what));
        let _beginning = lock(&self.beginning);
        let state = lock(&self.prefixes).entry(key).or_insert_with(new).clone();
        let in_use = self.using(&state.users, key);
        self.leave_unused(leave);
        (state, in_use)
    }

    /// Marks a prefix, or a source of pages, as in use while the returned guard lives.
    pub(crate) fn using(&self, users: &Mutex<Weak<InUse>>, key: PrefixKey) -> Arc<InUse> {
        let mut users = lock(users);
        users.upgrade().unwrap_or_else(|| {
            let file = self.disk().and_then(|disk| {
                disk.make_again().ok()?;
                let held = disk.folder().lock().ok()?;
                disk.folder().in_use(key, &held).ok()
            });
            let in_use = Arc::new(InUse(file.map(Arc::new)));
            *users = Arc::downgrade(&in_use);
            in_use
        })
    }

    /// Returns the lock that this process holds on a prefix, or a source, in use.
    pub(crate) fn in_use(&self, prefix: PrefixKey) -> Option<Arc<File>> {
        let state = lock(&self.prefixes).get(&prefix).cloned();
        let of_rows = state.and_then(|state| lock(&state.users).upgrade());
        of_rows.or_else(|| self.pages.in_use(prefix))?.0.clone()
    }

    /// Returns the prefixes that this process uses.
    pub(crate) fn used(&self) -> Vec<PrefixKey> {
        let prefixes = lock(&self.prefixes);
        prefixes.values().filter(|state| lock(&state.users).strong_count() > 0).map(|state| state.key).collect()
    }

    /// Frees the index of tiers of prefixes that are not in use. It is read again when they are used.
    fn leave_unused(&self, leave: impl Fn(PrefixKey)) {
        let prefixes: Vec<Arc<PrefixState>> = lock(&self.prefixes).values().cloned().collect();
        for state in prefixes.iter().filter(|state| lock(&state.users).strong_count() == 0) {
            for tier in TierId::ALL {
                let blocks: Vec<u32> = read(&state.index).blocks(tier).map(|(id, _)| id).collect();
                blocks.iter().for_each(|&id| _ = self.forget_block(tier, state, id));
            }
            leave(state.key);
        }
        drop(prefixes);
        lock(&self.prefixes).retain(|_, state| {
            let index = read(&state.index);
            // The writer may still have rows of it.
            let gone = Arc::strong_count(state) == 1 && index.segments().next().is_none();
            if gone {
                self.memory().uncount_index(index.files() * FILE_BYTES + index.filtered_out() * ROW_BYTES);
            }
            !gone
        });
    }

    /// Records that rows, or bytes, were requested, of `of` in all. Returns the passes over the prefix.
    pub(crate) fn asked(&self, prefix: PrefixKey, rows: u64, of: u64) -> f64 {
        lock(&self.uses).asked(prefix, rows, of)
    }

    /// Returns the passes over a prefix since the cache was opened.
    pub(crate) fn passes(&self, prefix: PrefixKey) -> f64 {
        lock(&self.uses).passes(prefix)
    }

    /// Records the cost of rows to compute, or pages to fetch.
    pub(crate) fn computed(&self, prefix: PrefixKey, nanos: u64, rows: usize, bytes: u64) {
        lock(&self.uses).computed(prefix, nanos, rows, bytes);
    }

    /// Returns the nanoseconds that computing a byte of a prefix takes, if known.
    pub(crate) fn cost(&self, state: &PrefixState) -> Option<f64> {
        lock(&self.uses).cost(state.key)
    }

    /// Evicts segments of rows from memory.
    pub(crate) fn evict_segments(&self, victims: &[Victim]) {
        for victim in victims {
            let Some(state) = self.known_prefix(victim.prefix) else { continue };
            let mut index = write(&state.index);
            let rows = index.segment(victim.block).map_or(0, |segment| segment.table.rows());
            index.drop_segment(victim.block);
            add(&state.counters.memory_evicted, rows);
        }
    }

    /// Returns the figures of prefixes and of sources of pages; `add` adds those of each tier to a prefix.
    pub(crate) fn stats(&self, add: impl Fn(&Index, &mut PrefixStats)) -> Stats {
        let prefixes: Vec<Arc<PrefixState>> = lock(&self.prefixes).values().cloned().collect();
        let mut prefixes: Vec<PrefixStats> = prefixes.iter().map(|state| state.stats(&add)).collect();
        prefixes.sort_by_key(|p| p.key);
        Stats { prefixes, sources: self.pages.stats(), ..Stats::default() }
    }
}
