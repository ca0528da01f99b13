//! What the prefixes of a cache have in common: quotas, how each was used, the disk, peers and the store.
//!
//! Locks: `beginning` before all; `memory`, then `uses`; `cells`, then an index; the disk's accounts, then `uses`; looking around
//! for pages, then the disk's accounts; and else the index of a prefix alone, never with another's. None is held while the
//! store is asked.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use forebay_core::Result;
use forebay_data::{Memory, Schema};

use crate::disk::{Block, Head, Layout, Name, Tier, Trouble, Unread, open};
use crate::index::{FILE_BYTES, Index, Level, NO_NUMBER, Number, Numbering, ROW_BYTES};
use crate::lock::{lock, read, write};
use crate::source::Sources;
use crate::space::{LastHit, Space, Victim};
use crate::stats::{Counters, DiskStats, PrefixStats, Stats, TierStats, add};
use crate::store::StoreTier;
use crate::table::{Shape, Table, shapes};
use crate::value::Uses;
use crate::{Options, PrefixKey};

/// What finds rows below and rows that filters removed takes at most half of the memory, or this where that is more.
const INDEX_BYTES_MIN: u64 = 64 << 20;
/// With less left for that, nothing more is brought that could not be found.
const INDEX_ROOM: u64 = 64 << 10;
/// What a block costs in memory besides its rows.
const BLOCK_BYTES: u64 = 1024;
/// What a row in a block costs in memory for its sum, and for where each part of it begins.
const WORD_BYTES: u64 = 8;

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
    /// Held by whoever makes snapshots.
    showing: Mutex<()>,
}

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

/// A block whose head was read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) head: Head,
    pub(crate) layout: Layout,
    pub(crate) name: Name,
    pub(crate) len: u64,
    pub(crate) last_hit: Arc<LastHit>,
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
            disk: options.disk.as_ref().map(Tier::open).transpose()?,
            sources: Sources::default(),
            store: options.store.as_ref().map(StoreTier::new),
            peers: OnceLock::new(),
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

    /// Reads the heads of the blocks of a prefix that it does not know.
    fn load(&self, tier: &Tier, cell: &Cell) {
        for unread in tier.blocks(cell.key) {
            if read(&cell.index).block(Level::Disk, unread.id).is_some() {
                continue;
            }
            let block = Victim { prefix: cell.key, block: unread.id };
            if let Err(trouble) = self.load_block(tier, cell, unread) {
                tier.drop_block(block, &trouble);
            }
        }
        self.shrink();
    }

    fn load_block(&self, tier: &Tier, cell: &Cell, block: Unread) -> Result<(), Trouble> {
        let Unread { id, name, len, last_hit } = block;
        let (head, layout) = open(&File::open(tier.folder().path(&name))?)?;
        self.take_in(Level::Disk, cell, id, Opened { head, layout, name, len, last_hit })
    }

    /// Lets the rows of a block be found that was opened.
    pub(crate) fn take_in(&self, level: Level, cell: &Cell, id: u32, block: Opened) -> Result<(), Trouble> {
        let Opened { head, layout, name, len, last_hit } = block;
        if head.prefix != cell.key || head.schema != *cell.schema {
            return Err(Trouble::Broken("it is not of its folder's prefix".to_owned()));
        }
        let nothing = Table::new(Vec::new(), 0);
        let right = |(i, key): (usize, &crate::RowKey)| nothing.sum(key, i) == layout.sums[i];
        if head.without && !layout.keys.iter().enumerate().all(right) {
            return Err(Trouble::Broken("a row's sum is wrong".to_owned()));
        }
        if let Some(picos) = head.picos_per_byte {
            lock(&self.uses).told(cell.key, picos as f64 / 1000.0);
        }
        last_hit.set(self.passes(cell.key));
        let mut index = write(&cell.index);
        let mut numbering = Numbering::default();
        let number = |key| {
            numbering.find(&index, key).unwrap_or_else(|| {
                if self.count_index(FILE_BYTES) { numbering.give(&mut index, key) } else { NO_NUMBER }
            })
        };
        let numbers: Vec<Number> = layout.keys.iter().map(number).collect();
        if head.without {
            if self.count_index(numbers.len() as u64 * ROW_BYTES) {
                let new = index.add_without(&numbers);
                self.uncount_index((numbers.len() as u64 - new) * ROW_BYTES);
            }
        } else {
            let asked = AtomicU32::new(0);
            let block = Block { name, len, layout, numbers, index_bytes: 0, last_hit, asked };
            self.index_block(level, cell, &mut index, id, block);
        }
        Ok(())
    }

    /// Takes in a block that was just published.
    pub(crate) fn add_block(&self, level: Level, cell: &Cell, block: &Unread, layout: Layout, numbers: Vec<Number>) {
        let Unread { id, name, len, last_hit } = block.clone();
        let block = Block { name, len, layout, numbers, index_bytes: 0, last_hit, asked: AtomicU32::new(0) };
        self.index_block(level, cell, &mut write(&cell.index), id, block);
    }

    /// Lets the rows of a block be found, if there is memory for that.
    fn index_block(&self, level: Level, cell: &Cell, index: &mut Index, id: u32, block: Block) {
        if index.block(level, id).is_some() {
            return;
        }
        let any = cell.shapes.iter().filter(|shape| **shape == Shape::Any).count() as u64;
        let row_bytes = ROW_BYTES + WORD_BYTES * (1 + any);
        let index_bytes = BLOCK_BYTES + block.numbers.len() as u64 * row_bytes;
        if block.numbers.contains(&NO_NUMBER) || !self.count_index(index_bytes) {
            return add(&cell.counters.unindexed, block.numbers.len());
        }
        // The keys are numbers from now on.
        let layout = Layout { keys: Vec::new(), ..block.layout };
        index.add_block(level, id, Arc::new(Block { layout, index_bytes, ..block }));
    }

    /// Forgets blocks on disk that are gone.
    pub(crate) fn forget_blocks(&self, gone: &[Victim]) {
        for victim in gone {
            self.sources.forget(self, victim.block);
            let Some(cell) = lock(&self.cells).get(&victim.prefix).cloned() else { continue };
            let rows = self.forget_block(Level::Disk, &cell, victim.block);
            add(&cell.counters.disk_evicted, rows);
        }
    }

    /// Forgets a block; returns how many rows it had.
    pub(crate) fn forget_block(&self, level: Level, cell: &Cell, id: u32) -> usize {
        let block = write(&cell.index).drop_block(level, id);
        block.map_or(0, |block| {
            self.uncount_index(block.index_bytes);
            block.numbers.len()
        })
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

    /// Returns how many of `rows` more rows of a prefix would be kept: a guess, by the size of those before.
    pub(crate) fn room(&self, cell: &Cell, rows: usize) -> usize {
        let Some(row_bytes) = lock(&self.uses).row_bytes(cell.key) else { return rows };
        let row_bytes = row_bytes + ROW_BYTES as f64;
        let bytes = (rows as f64 * row_bytes) as u64;
        if self.disk.as_ref().is_some_and(|tier| tier.wants_rows(cell.key, bytes, &self.uses)) {
            return rows;
        }
        if self.store.as_ref().is_some_and(|store| store.wants(bytes, self.cost(cell))) {
            return rows;
        }
        let mut memory = lock(&self.memory);
        match memory.has_room(cell.key, bytes, &lock(&self.uses)) {
            true => rows,
            false => (memory.free() as f64 / row_bytes) as usize,
        }
    }

    /// Returns the nanoseconds that a byte of a prefix takes to compute, if that is known.
    pub(crate) fn cost(&self, cell: &Cell) -> Option<f64> {
        lock(&self.uses).cost(cell.key)
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

    /// Takes memory for copies of what peers have, up to `bytes`; as [`Shared::reserve`].
    pub(crate) fn reserve_copy(&self, cell: &Cell, bytes: u64) -> u64 {
        let (granted, victims) = {
            let mut memory = lock(&self.memory);
            memory.reserve_copy(cell.key, bytes, &lock(&self.uses))
        };
        self.evict(&victims);
        granted
    }

    /// Takes memory if nobody has to make room; says whether it did.
    pub(crate) fn reserve_free(&self, bytes: u64) -> bool {
        lock(&self.memory).reserve_free(bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        lock(&self.memory).give_back(bytes);
    }

    /// Says whose the reserved memory is, and whether the rows are copies of what peers have.
    pub(crate) fn hold(&self, cell: &Cell, segment: u32, bytes: u64, last_hit: Arc<LastHit>, is_copy: bool) {
        let block = Victim { prefix: cell.key, block: segment };
        let mut memory = lock(&self.memory);
        if is_copy {
            memory.hold_copy(block, bytes, last_hit);
        } else {
            memory.hold(block, bytes, last_hit);
        }
    }

    /// Counts memory that finds rows; says whether there is any left for it. Call [`Shared::shrink`] when no index is locked.
    pub(crate) fn count_index(&self, bytes: u64) -> bool {
        let max = INDEX_BYTES_MIN.max(self.memory_quota / 2);
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= max);
        self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes memory that finds rows, if there is any left for it. Call [`Shared::shrink`] as for [`Shared::count_index`].
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
        let disk = self.disk.as_ref().map(|tier| {
            let (corrupt_blocks, other_blocks) = tier.troubles();
            DiskStats { tier: tier.stats(), stopped: tier.stopped(), corrupt_blocks, other_blocks }
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
        let rows = |level| index.blocks(level).map(|(_, block)| block.numbers.len() as u64).sum();
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
