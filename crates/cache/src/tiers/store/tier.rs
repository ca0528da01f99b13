//! The store as a tier: its parts, and whether writes succeed.
//!
//! Reads and writes fail independently, for example because of permissions, so each has its breaker. Each lock is taken
//! alone, and only that of the maintenance thread is held during a request to the store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_core::Result;

use crate::key::PrefixKey;
use crate::lock::{left, lock};
use crate::rows::index::Index;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::{Counters, PrefixStats, Stats, StoreStats, TierStats, add};
use crate::tiers::TierId;
use crate::tiers::block::message::Message;
use crate::tiers::block::name::Name;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::read_at::{ReadAt, Trouble};
use crate::tiers::block::writer;
use crate::tiers::block::{BLOCK_BYTES, BLOCK_BYTES_MIN, Block};
use crate::tiers::remote::access::Access;
use crate::tiers::remote::blocks::Elsewhere;
use crate::tiers::remote::maintenance;
use crate::tiers::remote::names::object_of;
use crate::tiers::remote::state::{LIST_WAIT, Listing, Remote};
use crate::tiers::remote::tier::RemoteTier;
use crate::tiers::store::upkeep::Upkeep;
use crate::tiers::store::{SharedStore, Store};
use crate::tiers::tier::{BlockSink, BlockTier, Promotion, Tier, TierThread, WantedBlock};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct StoreTier {
    pub(super) remote: Remote,
    pub(super) store: Arc<dyn Store>,
    pub(super) quota: u64,
    pub(super) queue: Queue<Message>,
    pub(super) block_bytes: u64,
    writes: Mutex<Access>,
    /// The bytes of all blocks, of all processes, once they were counted.
    pub(super) used: Mutex<Option<u64>>,
    pub(super) full: AtomicBool,
    corrupt: AtomicU64,
    /// Locked by the maintenance thread alone.
    pub(super) upkeep: Mutex<Upkeep>,
}

impl StoreTier {
    pub(crate) fn new(cache: &SharedStore) -> Self {
        let SharedStore { store, bytes: quota, watch } = cache.clone();
        Self {
            upkeep: Mutex::new(Upkeep::new(watch.nanos())),
            remote: Remote::new(TierId::Store, store.clone(), Listing::Seldom, watch),
            store,
            quota,
            queue: Queue::default(),
            block_bytes: BLOCK_BYTES.min(quota / 16).max(BLOCK_BYTES_MIN),
            writes: Access::new("written to"),
            used: Mutex::default(),
            full: AtomicBool::new(false),
            corrupt: AtomicU64::new(0),
        }
    }

    /// Says whether the store is written to now.
    pub(super) fn is_written(&self) -> bool {
        !lock(&self.writes).breaker.is_paused(self.remote.now())
    }

    /// Says whether this caller may write now. After a pause, only the first caller may, until the result is known.
    pub(super) fn may_write(&self) -> bool {
        lock(&self.writes).breaker.may_ask(self.remote.now())
    }

    /// Records the result of a write.
    pub(super) fn note_write<T>(&self, done: Result<T>) -> Option<T> {
        let mut writes = lock(&self.writes);
        match done {
            Ok(done) => {
                writes.succeeded();
                Some(done)
            }
            Err(e) => {
                writes.failed(self.remote.uri(), &e, self.remote.now());
                None
            }
        }
    }
}

impl Tier for StoreTier {
    fn wants_rows(&self, _: &CacheState, state: &PrefixState, bytes: u64, nanos_per_byte: Option<f64>) -> bool {
        state.stored.load(Ordering::Relaxed)
            && !self.full.load(Ordering::Relaxed)
            && self.is_written()
            && self.queue.has_room(bytes)
            && self.remote.pays_to_move(nanos_per_byte)
    }

    fn hits<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.store_hits
    }

    fn add_stats(&self, stats: &mut Stats) {
        let (unwritten, refused) = {
            let writes = lock(&self.writes);
            (writes.why.clone(), writes.failure.clone())
        };
        stats.store = Some(StoreStats {
            uri: self.remote.uri().to_owned(),
            tier: TierStats { bytes: lock(&self.used).unwrap_or(0), quota: self.quota },
            unread: self.remote.unread(),
            unwritten,
            refused,
            full: self.full.load(Ordering::Relaxed),
            corrupt_blocks: self.corrupt.load(Ordering::Relaxed),
            other_blocks: self.remote.other_blocks(),
        });
    }

    fn add_prefix_stats(&self, index: &Index, stats: &mut PrefixStats) {
        stats.store_rows = index.rows_on(TierId::Store);
    }
}

impl BlockTier for StoreTier {
    fn id(&self) -> TierId {
        TierId::Store
    }

    fn promotion(&self) -> Promotion {
        Promotion::AsOwn
    }

    fn open_prefix(&self, _: &CacheState, state: &Arc<PrefixState>) {
        self.remote.open(state);
    }

    fn leave_prefix(&self, prefix: PrefixKey) {
        self.remote.leave(prefix);
    }

    fn missed(&self, state: &Arc<PrefixState>) {
        self.remote.missed(state);
    }

    fn admits_read(&self, cache: &CacheState, state: &PrefixState, blocks: &[WantedBlock]) -> bool {
        self.remote.is_worth_reading(cache, state, blocks)
    }

    fn read(
        &self,
        cache: &CacheState,
        state: &Arc<PrefixState>,
        blocks: &[WantedBlock],
        each: &mut dyn FnMut(Result<&dyn ReadAt, Trouble>),
    ) {
        self.remote.read(cache, state, blocks, each);
        if cache.disk().is_some() {
            self.remote.copy_often(state, blocks);
        }
    }

    fn give_up(&self, state: &Arc<PrefixState>, _: u32, block: &Block, trouble: &Trouble) {
        self.remote.drop_block(state, &block.name, block.len, trouble);
    }

    fn sink(&self) -> Option<&dyn BlockSink> {
        Some(self)
    }

    fn elsewhere(&self, _: u64) -> Elsewhere {
        self.remote.elsewhere(self.quota)
    }

    fn threads(self: Arc<Self>) -> Vec<TierThread> {
        let tier = self.clone();
        let write = move |cache: &CacheState| writer::run(cache, &*tier);
        let maintain = move |cache: &CacheState| maintenance::run(cache, &*self);
        vec![("forebay-store", Box::new(write)), ("forebay-keeper", Box::new(maintain))]
    }

    fn close(&self, until: Instant) {
        self.remote.close();
        self.queue.close(left(until));
    }
}

impl RemoteTier for StoreTier {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    fn remove_broken(&self, name: &Name, why: &str) {
        self.corrupt.fetch_add(1, Ordering::Relaxed);
        let block = format!("{}/{}", self.remote.uri(), object_of(name));
        tracing::warn!(block, why, "a broken block is removed; its rows are computed again");
        if self.may_write() {
            self.note_write(self.store.delete(&object_of(name), LIST_WAIT));
        }
    }

    fn note_gone(&self, counters: &Counters, rows: usize) {
        add(&counters.store_evicted, rows);
    }

    fn upkeep(&self, cache: &CacheState) {
        self.keep_up(cache);
    }
}
