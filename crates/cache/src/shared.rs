//! What the prefixes of a cache have in common: quotas, and how each was used.
//!
//! Locks: `memory`, then `uses`; the index of a prefix alone, never with these or with another's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use forebay_data::Schema;

use crate::PrefixKey;
use crate::index::Index;
use crate::lock::{lock, read, write};
use crate::space::{LastHit, Space, Victim};
use crate::stats::{Counters, PrefixStats, Stats, TierStats, add};
use crate::table::{Shape, shapes};
use crate::value::Uses;

/// The rows of a prefix, and what they are.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) key: PrefixKey,
    pub(crate) schema: Arc<Schema>,
    pub(crate) shapes: Arc<[Shape]>,
    pub(crate) what: String,
    /// The rows of the source.
    pub(crate) rows: u64,
    pub(crate) index: RwLock<Index<NoBlock>>,
    pub(crate) counters: Counters,
}

/// There is no disk yet.
#[derive(Debug)]
pub(crate) enum NoBlock {}

impl crate::index::Block for NoBlock {
    fn numbers(&self) -> &[crate::index::Number] {
        match *self {}
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Mutex<Space>,
    memory_quota: u64,
    index_bytes: AtomicU64,
    uses: Mutex<Uses>,
    cells: Mutex<HashMap<PrefixKey, Arc<Cell>>>,
}

/// What finds rows on disk and rows that filters removed takes at most half of the memory, or this where that is more.
const INDEX_BYTES_MIN: u64 = 64 << 20;

impl Shared {
    pub(crate) fn new(memory: u64) -> Self {
        Self {
            memory: Mutex::new(Space::new(memory)),
            memory_quota: memory,
            index_bytes: AtomicU64::new(0),
            uses: Mutex::default(),
            cells: Mutex::default(),
        }
    }

    pub(crate) fn cell(&self, key: PrefixKey, schema: &Arc<Schema>, rows: u64, what: &str) -> Arc<Cell> {
        let mut cells = lock(&self.cells);
        let new = || {
            Arc::new(Cell {
                key,
                schema: schema.clone(),
                shapes: schema.fields().iter().flat_map(shapes).collect(),
                what: what.to_owned(),
                rows,
                index: RwLock::default(),
                counters: Counters::default(),
            })
        };
        cells.entry(key).or_insert_with(new).clone()
    }

    /// Notes that rows were asked for. Returns the passes over the prefix.
    pub(crate) fn asked(&self, cell: &Cell, rows: usize) -> f64 {
        lock(&self.uses).asked(cell.key, rows, cell.rows)
    }

    /// Returns the passes over a prefix since the cache was opened.
    pub(crate) fn passes(&self, cell: &Cell) -> f64 {
        lock(&self.uses).passes(cell.key)
    }

    /// Notes what rows cost to compute.
    pub(crate) fn computed(&self, cell: &Cell, nanos: u64, bytes: u64) {
        lock(&self.uses).computed(cell.key, nanos, bytes);
    }

    /// Takes memory for rows of a prefix, up to `bytes`; returns what there is. The rows that had it are gone.
    pub(crate) fn reserve(&self, cell: &Cell, bytes: u64) -> u64 {
        let (granted, victims) = {
            let mut memory = lock(&self.memory);
            memory.reserve(cell.key, bytes, &lock(&self.uses))
        };
        self.evict(&victims);
        granted
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.memory).give_back(bytes);
    }

    /// Says whose the reserved memory is.
    pub(crate) fn hold(&self, cell: &Cell, segment: u32, bytes: u64, last_hit: Arc<LastHit>) {
        lock(&self.memory).hold(Victim { prefix: cell.key, block: segment }, bytes, last_hit);
    }

    /// Counts memory that finds rows; says whether there is any left for it. Call [`Shared::shrink`] when no index is locked.
    pub(crate) fn count_index(&self, bytes: u64) -> bool {
        let max = INDEX_BYTES_MIN.max(self.memory_quota / 2);
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Drops rows from memory until what finds rows fits beside them.
    pub(crate) fn shrink(&self) {
        let quota = self.memory_quota.saturating_sub(self.index_bytes.load(Ordering::Relaxed));
        let victims = {
            let mut memory = lock(&self.memory);
            memory.set_quota(quota, &lock(&self.uses))
        };
        self.evict(&victims);
    }

    fn evict(&self, victims: &[Victim]) {
        for victim in victims {
            let Some(cell) = lock(&self.cells).get(&victim.prefix).cloned() else { continue };
            let mut index = write(&cell.index);
            let rows = index.segment(victim.block).map_or(0, |segment| segment.table.rows());
            index.drop_segment(victim.block);
            add(&cell.counters.memory_evicted, rows);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let index_bytes = self.index_bytes.load(Ordering::Relaxed);
        let bytes = lock(&self.memory).used() + index_bytes;
        let cells: Vec<Arc<Cell>> = lock(&self.cells).values().cloned().collect();
        let mut prefixes: Vec<PrefixStats> = cells.iter().map(|cell| cell.stats()).collect();
        prefixes.sort_by_key(|p| p.key);
        Stats { memory: TierStats { bytes, quota: self.memory_quota }, index_bytes, prefixes }
    }
}

impl Cell {
    fn stats(&self) -> PrefixStats {
        let index = read(&self.index);
        PrefixStats {
            key: self.key,
            what: self.what.clone(),
            rows: self.rows,
            memory_rows: index.segments().map(|s| s.table.rows() as u64).sum(),
            memory_bytes: index.segments().map(|s| s.table.bytes() as u64).sum(),
            without: index.without(),
            counts: self.counters.counts(),
        }
    }
}
