//! What the prefixes of a cache have in common: quotas, how each was used, the disk, peers and the store.
//!
//! Locks: `beginning` before all; `memory`, then `uses`; `cells`, then an index; the disk's accounts, then `uses`; looking around
//! for pages, then the disk's accounts; and else the index of a prefix alone, never with another's. None is held while the
//! store is asked.

mod blocks;
mod room;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use forebay_core::{Result, SystemClock};
use forebay_data::{Memory, Schema};

pub(crate) use self::blocks::Opened;
pub(crate) use self::room::IndexRoom;
use crate::disk::{Head, Tier};
use crate::index::{FILE_BYTES, Index, Level, ROW_BYTES};
use crate::lock::{lock, read};
use crate::source::Sources;
use crate::space::Space;
use crate::stats::{Counters, DiskStats, PrefixStats, Stats, TierStats};
use crate::store::StoreTier;
use crate::table::{Shape, shapes};
use crate::value::Uses;
use crate::{Options, Peers, PrefixKey};

/// The rows of a prefix, and what they are.
#[derive(Debug)]
pub(crate) struct Cell {
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

/// Held by whoever uses a prefix: other processes leave its blocks alone.
#[derive(Debug)]
pub(crate) struct InUse(Option<Arc<File>>);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Mutex<Space>,
    memory_quota: u64,
    /// Where rows are copied to that only wait to be written.
    passing: Memory,
    index_bytes: Arc<AtomicU64>,
    uses: Mutex<Uses>,
    cells: Mutex<HashMap<PrefixKey, Arc<Cell>>>,
    /// Held while somebody begins to use a prefix: its blocks are looked at once.
    beginning: Mutex<()>,
    disk: Option<Tier>,
    sources: Sources,
    store: Option<StoreTier>,
    peers: OnceLock<StoreTier>,
    neighbours: OnceLock<Arc<dyn Peers>>,
    /// Which of several processes goes first that want to compute the same.
    rank: u64,
    /// Held by whoever makes snapshots.
    showing: Mutex<()>,
}

impl Shared {
    pub(crate) fn open(options: &Options) -> Result<Self> {
        Ok(Self {
            memory: Mutex::new(Space::new(options.memory)),
            memory_quota: options.memory,
            passing: match (&options.disk, &options.store) {
                (None, None) => Memory::default(),
                _ => Memory::reused(),
            },
            index_bytes: Arc::default(),
            uses: Mutex::default(),
            cells: Mutex::default(),
            beginning: Mutex::default(),
            disk: options.disk.as_ref().map(|disk| Tier::open(disk, Arc::new(SystemClock::default()))).transpose()?,
            sources: Sources::default(),
            store: options.store.as_ref().map(StoreTier::new),
            peers: OnceLock::new(),
            neighbours: OnceLock::new(),
            rank: uuid::Uuid::new_v4().as_u64_pair().0,
            showing: Mutex::default(),
        })
    }

    pub(crate) fn disk(&self) -> Option<&Tier> {
        self.disk.as_ref()
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    pub(crate) fn store(&self) -> Option<&StoreTier> {
        self.store.as_ref()
    }

    pub(crate) fn peers(&self) -> &OnceLock<StoreTier> {
        &self.peers
    }

    /// Takes note of who is asked for rows, the first time.
    pub(crate) fn meet(&self, tier: StoreTier, neighbours: Arc<dyn Peers>) -> bool {
        let is_first = self.peers.set(tier).is_ok();
        is_first && self.neighbours.set(neighbours).is_ok()
    }

    /// Returns who is asked for rows.
    pub(crate) fn neighbours(&self) -> Option<&Arc<dyn Peers>> {
        self.neighbours.get()
    }

    pub(crate) fn rank(&self) -> u64 {
        self.rank
    }

    /// Returns the bytes of a row of a prefix, if any was computed.
    pub(crate) fn row_bytes(&self, cell: &Cell) -> Option<f64> {
        lock(&self.uses).row_bytes(cell.key)
    }

    pub(crate) fn showing(&self) -> &Mutex<()> {
        &self.showing
    }

    /// Says whether any rows are kept in memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory_quota > 0
    }

    /// Returns the rows of a prefix that is known here.
    pub(crate) fn known_cell(&self, key: PrefixKey) -> Option<Arc<Cell>> {
        lock(&self.cells).get(&key).cloned()
    }

    /// Returns what a block of a prefix says of itself.
    pub(crate) fn head(&self, cell: &Cell, without: bool) -> Head {
        // Whole picoseconds: a head is compared.
        let picos_per_byte = self.cost(cell).map(|nanos| (nanos * 1000.0) as u64);
        let schema = (*cell.schema).clone();
        Head { prefix: cell.key, what: cell.what.clone(), schema, without, picos_per_byte }
    }

    /// Returns what is asked for the blocks of a level; nobody is for those on the local disk.
    pub(crate) fn tier(&self, level: Level) -> Option<&StoreTier> {
        match level {
            Level::Disk => None,
            Level::Peers => self.peers.get(),
            Level::Store => self.store.as_ref(),
        }
    }

    /// Returns the store, if rows of a prefix are written there.
    pub(crate) fn store_of(&self, cell: &Cell) -> Option<&StoreTier> {
        self.store.as_ref().filter(|_| cell.stored.load(Ordering::Relaxed))
    }

    /// Returns all who are asked for blocks, the nearest first.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = &StoreTier> {
        Level::ALL.into_iter().filter_map(|level| self.tier(level))
    }

    pub(crate) fn passing(&self) -> &Memory {
        &self.passing
    }

    pub(crate) fn uses(&self) -> &Mutex<Uses> {
        &self.uses
    }

    /// Returns the rows of a prefix, those on disk too, and what says that they are used.
    pub(crate) fn cell(&self, key: PrefixKey, schema: &Arc<Schema>, rows: u64, what: &str) -> (Arc<Cell>, Arc<InUse>) {
        let new = || {
            Arc::new(Cell {
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
        let cell = lock(&self.cells).entry(key).or_insert_with(new).clone();
        let in_use = self.using(&cell.users, key);
        self.leave_unused();
        if let Some(tier) = &self.disk {
            match tier.refresh() {
                Ok(gone) => self.forget_blocks(&gone),
                Err(e) => tier.stop(&e.to_string()),
            }
            self.load(tier, &cell);
        }
        (cell, in_use)
    }

    /// Says that a prefix, or a source, is used as long as what is returned is held.
    pub(crate) fn using(&self, users: &Mutex<Weak<InUse>>, key: PrefixKey) -> Arc<InUse> {
        let mut users = lock(users);
        users.upgrade().unwrap_or_else(|| {
            let file = self.disk.as_ref().and_then(|tier| {
                tier.make_again().ok()?;
                let held = tier.folder().lock().ok()?;
                tier.folder().in_use(key, &held).ok()
            });
            let in_use = Arc::new(InUse(file.map(Arc::new)));
            *users = Arc::downgrade(&in_use);
            in_use
        })
    }

    /// Returns the lock that this process holds on a prefix, or a source, that it uses.
    pub(crate) fn in_use(&self, prefix: PrefixKey) -> Option<Arc<File>> {
        let cell = lock(&self.cells).get(&prefix).cloned();
        let of_rows = cell.and_then(|cell| lock(&cell.users).upgrade());
        of_rows.or_else(|| self.sources.in_use(prefix))?.0.clone()
    }

    /// Returns the prefixes that this process uses.
    pub(crate) fn used(&self) -> Vec<PrefixKey> {
        let cells = lock(&self.cells);
        cells.values().filter(|cell| lock(&cell.users).strong_count() > 0).map(|cell| cell.key).collect()
    }

    /// Frees what finds rows below of prefixes that nobody uses; they are looked at again when somebody does.
    fn leave_unused(&self) {
        let cells: Vec<Arc<Cell>> = lock(&self.cells).values().cloned().collect();
        for cell in cells.iter().filter(|cell| lock(&cell.users).strong_count() == 0) {
            for level in Level::ALL {
                let blocks: Vec<u32> = read(&cell.index).blocks(level).map(|(id, _)| id).collect();
                blocks.iter().for_each(|&id| _ = self.forget_block(level, cell, id));
            }
            self.elsewhere().for_each(|tier| tier.leave(cell.key));
        }
        drop(cells);
        lock(&self.cells).retain(|_, cell| {
            let index = read(&cell.index);
            // The writer may still have rows of it.
            let gone = Arc::strong_count(cell) == 1 && index.segments().next().is_none();
            if gone {
                self.uncount_index(index.files() * FILE_BYTES + index.without() * ROW_BYTES);
            }
            !gone
        });
    }

    /// Notes that rows were asked for, or bytes, of so many that there are. Returns the passes over the prefix.
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

    /// Returns the nanoseconds that a byte of a prefix takes to compute, if that is known.
    pub(crate) fn cost(&self, cell: &Cell) -> Option<f64> {
        lock(&self.uses).cost(cell.key)
    }

    pub(crate) fn stats(&self) -> Stats {
        let index_bytes = self.index_bytes.load(Ordering::Relaxed);
        let bytes = lock(&self.memory).used() + index_bytes;
        let cells: Vec<Arc<Cell>> = lock(&self.cells).values().cloned().collect();
        let mut prefixes: Vec<PrefixStats> = cells.iter().map(|cell| cell.stats()).collect();
        prefixes.sort_by_key(|p| p.key);
        let disk = self.disk.as_ref().map(|tier| {
            let (corrupt_blocks, other_blocks) = tier.troubles();
            let (stopped, left_alone) = (tier.stopped(), tier.is_left_alone());
            DiskStats { tier: tier.stats(), stopped, left_alone, corrupt_blocks, other_blocks }
        });
        let sources = self.sources.stats();
        let store = self.store.as_ref().map(StoreTier::stats);
        let memory = TierStats { bytes, quota: self.memory_quota };
        Stats { memory, index_bytes, disk, store, prefixes, sources }
    }
}

impl Cell {
    fn stats(&self) -> PrefixStats {
        let index = read(&self.index);
        let rows = |level| index.rows_on(level);
        PrefixStats {
            key: self.key,
            what: self.what.clone(),
            rows: self.rows,
            memory_rows: index.segments().map(|s| s.table.rows() as u64).sum(),
            memory_bytes: index.segments().map(|s| s.table.bytes() as u64).sum(),
            disk_rows: rows(Level::Disk),
            peer_rows: rows(Level::Peers),
            store_rows: rows(Level::Store),
            without: index.without(),
            counts: self.counters.counts(),
        }
    }
}
