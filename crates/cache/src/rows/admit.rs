//! Decides where computed rows are kept, and where rows that were read from a tier are kept.
//!
//! Rows are copied once, because the columns of the caller may be a slice of far larger buffers, or lie in shared
//! memory, and their next owner writes to them. Rows that only go to the disk are found in memory until they are
//! written.

use std::sync::Arc;

use forebay_data::Memory;

use crate::lock::{read, write};
use crate::quota::accounts::LastHit;
use crate::rows::index::{Number, ROW_BYTES, RowLocation, Segment};
use crate::rows::table::{Place, Table};
use crate::state::{CacheState, PrefixState};
use crate::stats::add;
use crate::tiers::Tier;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::writer::{Message, Rows};

/// What a segment costs in memory besides its rows.
const SEGMENT_BYTES: u64 = 1024;

/// Rows that are kept, for the index to add.
pub(crate) struct Admitted {
    pub(crate) segment: Arc<Segment>,
    /// The bytes that it takes of the quota of memory; 0 when it only waits to be written.
    bytes: u64,
    to_disk: bool,
    to_store: bool,
}

/// Copies those of `rows` (their numbers, and their places in `table`) that are kept.
pub(crate) fn admit(
    cache: &CacheState,
    state: &Arc<PrefixState>,
    table: &Table,
    rows: &[(Number, u32)],
) -> Option<Admitted> {
    if rows.is_empty() {
        return None;
    }
    let wanted = needed(table, rows);
    let to_disk = cache.disk().is_some_and(|tier| tier.wants_rows(state.key, wanted, cache.uses()));
    let to_store = cache.store_of(state).is_some_and(|store| store.wants(wanted, cache.cost(state)));
    let granted = cache.reserve(state, wanted);
    let fit = if granted == wanted { rows.len() } else { fitting(table, rows, granted) };
    // Keeping a part in memory while all wait to be written would hold two copies.
    let passes = to_disk || to_store;
    let fit = if passes && fit < rows.len() { 0 } else { fit };
    let bytes = if fit == 0 { 0 } else { needed(table, &rows[..fit]) };
    cache.give_back(granted - bytes);
    add(&state.counters.memory_refused, rows.len() - fit);
    if cache.disk().is_some() && !to_disk {
        add(&state.counters.disk_refused, rows.len());
    }
    if cache.store().is_some() && !to_store {
        add(&state.counters.store_refused, rows.len());
    }
    let kept = if passes { rows } else { &rows[..fit] };
    // Rows that only wait to be written reuse the memory of earlier ones: fresh pages cost more than the copy.
    let memory = if bytes == 0 { cache.passing() } else { &Memory::default() };
    (!kept.is_empty()).then(|| Admitted {
        segment: segment(cache, state, table, kept, memory),
        bytes,
        to_disk,
        to_store,
    })
}

/// Keeps rows in memory that were read from a tier. Rows from the disk are kept if there is free room. Rows from the
/// store also evict rows of less value. Rows of peers are kept as copies (see [`crate::quota::accounts`]).
pub(crate) fn promote(cache: &CacheState, state: &Arc<PrefixState>, table: &Table, rows: &[(Number, u32)], tier: Tier) {
    let rows: Vec<(Number, u32)> = {
        let index = read(&state.index);
        // A concurrent lookup may have kept them already.
        let below = |number| matches!(index.location(number), RowLocation::InTier(..));
        rows.iter().copied().filter(|(number, _)| below(*number)).collect()
    };
    let bytes = needed(table, &rows);
    if rows.is_empty() {
        return;
    }
    let reserved = match tier {
        Tier::Disk => cache.reserve_free(bytes),
        Tier::Peers => whole(cache, cache.reserve_copy(state, bytes), bytes),
        Tier::Store => whole(cache, cache.reserve(state, bytes), bytes),
    };
    if reserved {
        let segment = segment(cache, state, table, &rows, &Memory::default());
        let id = write(&state.index).add_segment(segment.clone());
        cache.hold(state, id, bytes, segment.last_hit.clone(), tier == Tier::Peers);
        // Peers read rows on the disk from there.
        if tier == Tier::Store {
            write(&state.index).export_segments([id]);
        }
    }
}

/// Keeps rows that peers gave, as copies.
pub(crate) fn keep_copies(cache: &CacheState, state: &Arc<PrefixState>, table: &Table, rows: &[(Number, u32)]) {
    let bytes = needed(table, rows);
    if rows.is_empty() || !whole(cache, cache.reserve_copy(state, bytes), bytes) {
        return;
    }
    let segment = segment(cache, state, table, rows, &Memory::default());
    let id = write(&state.index).add_segment(segment.clone());
    cache.hold(state, id, bytes, segment.last_hit.clone(), true);
}

/// Says whether all bytes were granted; gives them back if not.
fn whole(cache: &CacheState, granted: u64, wanted: u64) -> bool {
    if granted < wanted {
        cache.give_back(granted);
    }
    granted == wanted
}

/// Sends the numbers of rows that a filter removed to the disk and the store, or to the snapshots for peers.
pub(crate) fn write_filtered_out(cache: &CacheState, state: &Arc<PrefixState>, numbers: &[Number]) {
    let bytes = numbers.len() as u64 * ROW_BYTES;
    // Numbers that are not written are found out again after a restart.
    let push = |queue: &Queue<Message>| {
        let _ = queue.push(Message { state: state.clone(), rows: Rows::FilteredOut(numbers.to_vec()), bytes }, bytes);
    };
    match cache.disk() {
        Some(tier) if tier.wants_rows(state.key, bytes, cache.uses()) => push(&tier.queue),
        None if cache.has_memory() && cache.peers().get().is_some() => {
            write(&state.index).exports.add_filtered_out(numbers)
        }
        _ => {}
    }
    cache.store_of(state).filter(|store| store.wants(bytes, None)).into_iter().for_each(|store| push(&store.queue));
}

impl Admitted {
    /// Accounts for the memory, now that the index has the rows, and queues the rows for the disk and the store.
    pub(crate) fn commit(self, cache: &CacheState, state: &Arc<PrefixState>, id: u32) {
        let kept = self.bytes > 0;
        if kept {
            cache.hold(state, id, self.bytes, self.segment.last_hit.clone(), false);
        }
        let (rows, bytes) = (self.segment.table.rows(), self.segment.table.bytes() as u64);
        let push = |queue: &Queue<Message>, passing: bool| {
            let rows = Rows::Computed { id, segment: self.segment.clone(), passing };
            queue.push(Message { state: state.clone(), rows, bytes }, bytes).is_ok()
        };
        // Rows that only wait to be written leave memory when the nearer tier has them.
        let disk = cache.disk().filter(|_| self.to_disk);
        let on_disk = disk.is_some_and(|tier| push(&tier.queue, !kept));
        let store = cache.store().filter(|_| self.to_store);
        let in_store = store.is_some_and(|store| push(&store.queue, !kept && !on_disk));
        add(&state.counters.disk_refused, if disk.is_some() && !on_disk { rows } else { 0 });
        add(&state.counters.store_refused, if store.is_some() && !in_store { rows } else { 0 });
        if kept && !on_disk {
            write(&state.index).export_segments([id]);
        }
        if !kept && !on_disk && !in_store {
            write(&state.index).drop_segment(id);
        }
    }
}

/// Returns a copy of some rows of a table.
pub(crate) fn copy(state: &PrefixState, table: &Table, rows: &[(Number, u32)], memory: &Memory) -> Table {
    let places: Vec<Place> = rows.iter().map(|(_, row)| Place { table: 0, row: *row }).collect();
    Table::gather(&state.shapes, &[table], &places, memory)
}

fn segment(
    cache: &CacheState,
    state: &PrefixState,
    table: &Table,
    rows: &[(Number, u32)],
    memory: &Memory,
) -> Arc<Segment> {
    let last_hit = Arc::new(LastHit::default());
    last_hit.set(cache.passes(state.key));
    let numbers = rows.iter().map(|(number, _)| *number).collect();
    Arc::new(Segment { table: copy(state, table, rows, memory), numbers, last_hit })
}

fn needed(table: &Table, rows: &[(Number, u32)]) -> u64 {
    SEGMENT_BYTES + rows.iter().map(|(_, row)| table.row_bytes(*row as usize) as u64 + ROW_BYTES).sum::<u64>()
}

/// Returns how many of the first rows fit into `bytes`.
fn fitting(table: &Table, rows: &[(Number, u32)], bytes: u64) -> usize {
    let mut taken = SEGMENT_BYTES;
    let fits = |(_, row): &&(Number, u32)| {
        taken += table.row_bytes(*row as usize) as u64 + ROW_BYTES;
        taken <= bytes
    };
    rows.iter().take_while(fits).count()
}
