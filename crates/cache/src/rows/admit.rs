//! Decides where computed rows, and rows that were read from a tier, are kept.
//!
//! Rows are copied once, because the columns of the caller may be a slice of far larger buffers, or lie in shared
//! memory, and their next owner writes to them. Rows that only go to the disk are found in memory until they are
//! written.

use std::sync::Arc;

use forebay_data::Memory;

use crate::lock::{read, write};
use crate::quota::accounts::{LastHit, Victim};
use crate::rows::index::{ROW_BYTES, RowLocation};
use crate::rows::number::Number;
use crate::rows::segment::Segment;
use crate::rows::table::{Place, Table};
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::add;
use crate::tiers::TierId;
use crate::tiers::block::message::{Message, Rows};
use crate::tiers::list::Tiers;
use crate::tiers::tier::{BlockSink, Promotion, Tier};

/// The memory of a segment besides its rows.
const SEGMENT_BYTES: u64 = 1024;

/// Kept rows, for the index to add.
pub(crate) struct Admitted {
    pub(crate) segment: Arc<Segment>,
    /// The bytes that it takes of the quota of memory; 0 when it only waits to be written.
    bytes: u64,
    /// The tiers that want the rows, the nearest first.
    wanted_by: Vec<TierId>,
}

/// Copies the rows among `rows` (their numbers, and their places in `table`) that are kept.
pub(crate) fn admit(
    cache: &CacheState,
    tiers: &Tiers,
    state: &Arc<PrefixState>,
    table: &Table,
    rows: &[(Number, u32)],
) -> Option<Admitted> {
    if rows.is_empty() {
        return None;
    }
    let wanted = needed(table, rows);
    let cost = cache.cost(state);
    let (wanting, refusing): (Vec<&dyn BlockSink>, Vec<&dyn BlockSink>) =
        tiers.sinks().partition(|sink| sink.wants_rows(cache, state, wanted, cost));
    let granted = cache.memory().reserve(cache, state, wanted);
    let fit = if granted == wanted { rows.len() } else { fitting(table, rows, granted) };
    // Keeping a part in memory while all rows wait to be written would hold two copies.
    let passes = !wanting.is_empty();
    let fit = if passes && fit < rows.len() { 0 } else { fit };
    let bytes = if fit == 0 { 0 } else { needed(table, &rows[..fit]) };
    cache.memory().give_back(granted - bytes);
    add(&state.counters.memory_refused, rows.len() - fit);
    refusing.iter().for_each(|sink| add(sink.refused(&state.counters), rows.len()));
    let kept = if passes { rows } else { &rows[..fit] };
    // Rows that only wait to be written reuse the memory of earlier ones: fresh pages cost more than the copy.
    let memory = if bytes == 0 { cache.memory().passing() } else { &Memory::default() };
    (!kept.is_empty()).then(|| Admitted {
        segment: segment(cache, state, table, kept, memory),
        bytes,
        wanted_by: wanting.iter().map(|sink| sink.id()).collect(),
    })
}

/// Keeps rows in memory that were read from a tier.
pub(crate) fn promote(
    cache: &CacheState,
    state: &Arc<PrefixState>,
    table: &Table,
    rows: &[(Number, u32)],
    promotion: Promotion,
) {
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
    let memory = cache.memory();
    let reserved = match promotion {
        Promotion::IfFree => memory.reserve_free(bytes),
        Promotion::AsCopies => whole(cache, memory.reserve_copy(cache, state, bytes), bytes),
        Promotion::AsOwn => whole(cache, memory.reserve(cache, state, bytes), bytes),
    };
    if reserved {
        let id = hold(cache, state, table, &rows, bytes, promotion == Promotion::AsCopies);
        // Peers read rows on the disk from the disk, and copies from their owners.
        if promotion == Promotion::AsOwn {
            write(&state.index).export_segments([id]);
        }
    }
}

/// Keeps rows that peers sent, as copies.
pub(crate) fn keep_copies(cache: &CacheState, state: &PrefixState, table: &Table, rows: &[(Number, u32)]) {
    let bytes = needed(table, rows);
    if !rows.is_empty() && whole(cache, cache.memory().reserve_copy(cache, state, bytes), bytes) {
        hold(cache, state, table, rows, bytes, true);
    }
}

/// Copies rows into reserved memory; returns the number of their segment.
fn hold(
    cache: &CacheState,
    state: &PrefixState,
    table: &Table,
    rows: &[(Number, u32)],
    bytes: u64,
    is_copy: bool,
) -> u32 {
    let segment = segment(cache, state, table, rows, &Memory::default());
    let id = write(&state.index).add_segment(segment.clone());
    cache.memory().hold(Victim { prefix: state.key, block: id }, bytes, segment.last_hit.clone(), is_copy);
    id
}

/// Says whether all bytes were granted; returns them if not.
fn whole(cache: &CacheState, granted: u64, wanted: u64) -> bool {
    if granted < wanted {
        cache.memory().give_back(granted);
    }
    granted == wanted
}

/// Estimates how many of `rows` more rows of a prefix would be kept, by the size of earlier ones.
pub(crate) fn room(cache: &CacheState, tiers: &Tiers, state: &PrefixState, rows: usize) -> usize {
    let Some(row_bytes) = cache.row_bytes(state) else { return rows };
    let row_bytes = row_bytes + ROW_BYTES as f64;
    let (bytes, cost) = ((rows as f64 * row_bytes) as u64, cache.cost(state));
    let wants = |tier: &dyn Tier| tier.wants_rows(cache, state, bytes, cost);
    if tiers.sinks().any(|sink| wants(sink)) || wants(cache.memory()) {
        return rows;
    }
    (cache.memory().free() as f64 / row_bytes) as usize
}

/// Sends the numbers of rows that a filter removed to the tiers below, or to the snapshots for peers.
pub(crate) fn write_filtered_out(cache: &CacheState, tiers: &Tiers, state: &Arc<PrefixState>, numbers: &[Number]) {
    let bytes = numbers.len() as u64 * ROW_BYTES;
    // Without a disk, from which peers would read them.
    if cache.disk().is_none() && cache.memory().is_used() && cache.exports_watch().is_some() {
        write(&state.index).exports.add_filtered_out(numbers);
    }
    for sink in tiers.sinks().filter(|sink| sink.wants_rows(cache, state, bytes, None)) {
        let rows = Rows::FilteredOut(numbers.to_vec());
        // Numbers that are not written are computed again after a restart.
        let _ = sink.queue().push(Message { state: state.clone(), rows, bytes }, bytes);
    }
}

impl Admitted {
    /// Accounts for the memory, now that the index has the rows, and queues the rows for the tiers that want them.
    pub(crate) fn commit(self, cache: &CacheState, tiers: &Tiers, state: &Arc<PrefixState>, id: u32) {
        let kept = self.bytes > 0;
        if kept {
            cache.memory().hold(
                Victim { prefix: state.key, block: id },
                self.bytes,
                self.segment.last_hit.clone(),
                false,
            );
        }
        let (rows, bytes) = (self.segment.table.rows(), self.segment.table.bytes() as u64);
        let (mut is_queued, mut is_local) = (false, false);
        for sink in tiers.sinks().filter(|sink| self.wanted_by.contains(&sink.id())) {
            // Rows that only wait to be written leave memory when the nearest tier has them.
            let rows_of = Rows::Computed { id, segment: self.segment.clone(), passing: !kept && !is_queued };
            if sink.queue().push(Message { state: state.clone(), rows: rows_of, bytes }, bytes).is_ok() {
                (is_queued, is_local) = (true, is_local || sink.is_local());
            } else {
                add(sink.refused(&state.counters), rows);
            }
        }
        if kept && !is_local {
            write(&state.index).export_segments([id]);
        }
        if !kept && !is_queued {
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
