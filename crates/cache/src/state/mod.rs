//! The shared state of a cache: its quotas, its prefixes, their recent uses, and its tiers.
//!
//! | module | |
//! |---|---|
//! | `blocks` | adds the rows of blocks to the index of their prefix, and forgets them |
//! | `memory` | divides memory between rows, copies of peers' rows, and the index |
//!
//! Lock order: `beginning` before all others; `memory`, then `uses`; `prefixes`, then an index; the accounts of the
//! disk, then `uses`; the search for pages, then the accounts of the disk. Apart from these, an index is locked alone,
//! never with that of another prefix. No lock is held while a store is asked.

pub(crate) mod blocks;
pub(crate) mod memory;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use forebay_core::{Result, SystemClock};
use forebay_data::{Memory, Schema};

use crate::cache::Options;
use crate::key::PrefixKey;
use crate::lock::{lock, read};
use crate::pages::PageCacheState;
use crate::quota::accounts::QuotaAccounts;
use crate::quota::value::Uses;
use crate::rows::index::{FILE_BYTES, Index, ROW_BYTES};
use crate::rows::table::{Shape, shapes};
use crate::stats::{Counters, DiskStats, PrefixStats, Stats, TierStats};
use crate::tiers::Tier;
use crate::tiers::block::format::BlockHeader;
use crate::tiers::disk::tier::DiskTier;
use crate::tiers::peers::client::Peers;
use crate::tiers::store::tier::StoreTier;

/// A prefix: its rows, and its description.
#[derive(Debug)]
pub(crate) struct PrefixState {
    pub(crate) key: PrefixKey,
    pub(crate) schema: Arc<Schema>,
    pub(crate) shapes: Arc<[Shape]>,
    pub(crate) what: String,
    /// The rows of the source.
    pub(crate) rows: u64,
    pub(crate) index: RwLock<Index>,
    pub(crate) counters: Counters,
    /// Whether its rows are written to the store.
    pub(crate) stored: AtomicBool,
    users: Mutex<Weak<InUse>>,
}

/// Held while this process uses a prefix, so that other processes do not evict its blocks.
#[derive(Debug)]
pub(crate) struct InUse(Option<Arc<File>>);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct CacheState {
    memory: Mutex<QuotaAccounts>,
    memory_quota: u64,
    /// Memory for copies of rows that only wait to be written.
    passing: Memory,
    index_bytes: Arc<AtomicU64>,
    uses: Mutex<Uses>,
    prefixes: Mutex<HashMap<PrefixKey, Arc<PrefixState>>>,
    /// Held while a use of a prefix begins, so that its blocks are read once.
    beginning: Mutex<()>,
    disk: Option<DiskTier>,
    pages: PageCacheState,
    store: Option<StoreTier>,
    peers: OnceLock<StoreTier>,
    neighbours: OnceLock<Arc<dyn Peers>>,
    /// Of two processes that want to compute the same rows, the one with the lower rank goes first.
    rank: u64,
    /// Held while a thread makes snapshots.
    snapshotting: Mutex<()>,
}

impl CacheState {
    pub(crate) fn open(options: &Options) -> Result<Self> {
        Ok(Self {
            memory: Mutex::new(QuotaAccounts::new(options.memory)),
            memory_quota: options.memory,
            passing: match (&options.disk, &options.store) {
                (None, None) => Memory::default(),
                _ => Memory::reused(),
            },
            index_bytes: Arc::default(),
            uses: Mutex::default(),
            prefixes: Mutex::default(),
            beginning: Mutex::default(),
            disk: options
                .disk
                .as_ref()
                .map(|disk| DiskTier::open(disk, Arc::new(SystemClock::default())))
                .transpose()?,
            pages: PageCacheState::default(),
            store: options.store.as_ref().map(StoreTier::new),
            peers: OnceLock::new(),
            neighbours: OnceLock::new(),
            rank: uuid::Uuid::new_v4().as_u64_pair().0,
            snapshotting: Mutex::default(),
        })
    }

    pub(crate) fn disk(&self) -> Option<&DiskTier> {
        self.disk.as_ref()
    }

    pub(crate) fn pages(&self) -> &PageCacheState {
        &self.pages
    }

    pub(crate) fn store(&self) -> Option<&StoreTier> {
        self.store.as_ref()
    }

    pub(crate) fn peers(&self) -> &OnceLock<StoreTier> {
        &self.peers
    }

    /// Sets the peers, the first time.
    pub(crate) fn meet(&self, remote: StoreTier, neighbours: Arc<dyn Peers>) -> bool {
        let is_first = self.peers.set(remote).is_ok();
        is_first && self.neighbours.set(neighbours).is_ok()
    }

    /// Returns the peers that are asked for rows.
    pub(crate) fn neighbours(&self) -> Option<&Arc<dyn Peers>> {
        self.neighbours.get()
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

    /// Says whether any rows are kept in memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory_quota > 0
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

    /// Returns the remote tier; `None` for the local disk.
    pub(crate) fn remote(&self, tier: Tier) -> Option<&StoreTier> {
        match tier {
            Tier::Disk => None,
            Tier::Peers => self.peers.get(),
            Tier::Store => self.store.as_ref(),
        }
    }

    /// Returns the store, if rows of the prefix are written there.
    pub(crate) fn store_of(&self, state: &PrefixState) -> Option<&StoreTier> {
        self.store.as_ref().filter(|_| state.stored.load(Ordering::Relaxed))
    }

    /// Returns the remote tiers, the nearest first.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = &StoreTier> {
        Tier::ALL.into_iter().filter_map(|tier| self.remote(tier))
    }

    pub(crate) fn passing(&self) -> &Memory {
        &self.passing
    }

    pub(crate) fn uses(&self) -> &Mutex<Uses> {
        &self.uses
    }

    /// Returns a prefix, with its rows on disk, and the guard that marks it as in use.
    pub(crate) fn prefix(
        &self,
        key: PrefixKey,
        schema: &Arc<Schema>,
        rows: u64,
        what: &str,
    ) -> (Arc<PrefixState>, Arc<InUse>) {
        let new = || {
            Arc::new(PrefixState {
                key,
                schema: schema.clone(),
                shapes: schema.fields().iter().flat_map(shapes).collect(),
                what: what.to_owned(),
                rows,
                index: RwLock::default(),
                counters: Counters::default(),
                stored: AtomicBool::new(true),
                users: Mutex::default(),
            })
        };
        let _beginning = lock(&self.beginning);
        let state = lock(&self.prefixes).entry(key).or_insert_with(new).clone();
        let in_use = self.using(&state.users, key);
        self.leave_unused();
        if let Some(disk) = &self.disk {
            match disk.refresh() {
                Ok(gone) => self.forget_blocks(&gone),
                Err(e) => disk.stop(&e.to_string()),
            }
            self.load(disk, &state);
        }
        (state, in_use)
    }

    /// Marks a prefix, or a source of pages, as in use while the returned guard lives.
    pub(crate) fn using(&self, users: &Mutex<Weak<InUse>>, key: PrefixKey) -> Arc<InUse> {
        let mut users = lock(users);
        users.upgrade().unwrap_or_else(|| {
            let file = self.disk.as_ref().and_then(|disk| {
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

    /// Frees the index of tiers of prefixes that are not in use. It is read again when they are.
    fn leave_unused(&self) {
        let prefixes: Vec<Arc<PrefixState>> = lock(&self.prefixes).values().cloned().collect();
        for state in prefixes.iter().filter(|state| lock(&state.users).strong_count() == 0) {
            for tier in Tier::ALL {
                let blocks: Vec<u32> = read(&state.index).blocks(tier).map(|(id, _)| id).collect();
                blocks.iter().for_each(|&id| _ = self.forget_block(tier, state, id));
            }
            self.remotes().for_each(|remote| remote.leave(state.key));
        }
        drop(prefixes);
        lock(&self.prefixes).retain(|_, state| {
            let index = read(&state.index);
            // The writer may still have rows of it.
            let gone = Arc::strong_count(state) == 1 && index.segments().next().is_none();
            if gone {
                self.uncount_index(index.files() * FILE_BYTES + index.filtered_out() * ROW_BYTES);
            }
            !gone
        });
    }

    /// Notes that rows, or bytes, were requested, of `of` in all. Returns the passes over the prefix.
    pub(crate) fn asked(&self, prefix: PrefixKey, rows: u64, of: u64) -> f64 {
        lock(&self.uses).asked(prefix, rows, of)
    }

    /// Returns the passes over a prefix since the cache was opened.
    pub(crate) fn passes(&self, prefix: PrefixKey) -> f64 {
        lock(&self.uses).passes(prefix)
    }

    /// Notes what rows cost to compute, or pages to fetch.
    pub(crate) fn computed(&self, prefix: PrefixKey, nanos: u64, rows: usize, bytes: u64) {
        lock(&self.uses).computed(prefix, nanos, rows, bytes);
    }

    /// Returns the nanoseconds that computing a byte of a prefix takes, if known.
    pub(crate) fn cost(&self, state: &PrefixState) -> Option<f64> {
        lock(&self.uses).cost(state.key)
    }

    pub(crate) fn stats(&self) -> Stats {
        let index_bytes = self.index_bytes.load(Ordering::Relaxed);
        let bytes = lock(&self.memory).used() + index_bytes;
        let prefixes: Vec<Arc<PrefixState>> = lock(&self.prefixes).values().cloned().collect();
        let mut prefixes: Vec<PrefixStats> = prefixes.iter().map(|state| state.stats()).collect();
        prefixes.sort_by_key(|p| p.key);
        let disk = self.disk.as_ref().map(|disk| {
            let (corrupt_blocks, other_blocks) = disk.troubles();
            let (stopped, left_alone) = (disk.stopped(), disk.is_left_alone());
            DiskStats { tier: disk.stats(), stopped, left_alone, corrupt_blocks, other_blocks }
        });
        let sources = self.pages.stats();
        let store = self.store.as_ref().map(StoreTier::stats);
        let memory = TierStats { bytes, quota: self.memory_quota };
        Stats { memory, index_bytes, disk, store, prefixes, sources }
    }
}

impl PrefixState {
    fn stats(&self) -> PrefixStats {
        let index = read(&self.index);
        let rows = |tier| index.rows_on(tier);
        PrefixStats {
            key: self.key,
            what: self.what.clone(),
            rows: self.rows,
            memory_rows: index.segments().map(|s| s.table.rows() as u64).sum(),
            memory_bytes: index.segments().map(|s| s.table.bytes() as u64).sum(),
            disk_rows: rows(Tier::Disk),
            peer_rows: rows(Tier::Peers),
            store_rows: rows(Tier::Store),
            filtered_out: index.filtered_out(),
            counts: self.counters.counts(),
        }
    }
}
