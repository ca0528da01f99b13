//! Makes snapshots of rows in memory when a peer lists the blocks.
//!
//! Rows that arrived since the last full snapshot make a smaller one, at most every [`MAKE_EVERY`].
//!
//! Bounds: a process makes one snapshot at a time, and holds three copies of its rows meanwhile. Snapshots count to the
//! quota of the index. One listing makes at most [`MAKE_BYTES_MAX`] of snapshots.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::Result;

use crate::key::RowKey;
use crate::lock::{read, write};
use crate::rows::number::Number;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::tiers::peers::exports::export_index::Batch;
use crate::tiers::peers::exports::snapshot::Snapshot;

/// The most bytes of snapshots that one listing makes: some tenths of a second.
const MAKE_BYTES_MAX: u64 = 128 << 20;
/// How often a snapshot is made that is not full.
const MAKE_EVERY: Duration = Duration::from_millis(250);

/// Returns the snapshots of a prefix, and makes new ones, unless another thread makes them: the next listing has these
/// snapshots.
pub(crate) fn snapshots(cache: &CacheState, state: &PrefixState) -> Vec<Arc<Snapshot>> {
    if let Ok(_one) = cache.snapshotting().try_lock() {
        make_all(cache, state);
    }
    read(&state.index).exports.snapshots.values().cloned().collect()
}

fn make_all(cache: &CacheState, state: &PrefixState) {
    let now = cache.exports_watch().map(|watch| watch.nanos());
    let is_due = |made: Option<u64>| {
        let since = now.zip(made).map(|(now, made)| Duration::from_nanos(now.saturating_sub(made)));
        since.is_none_or(|since| since >= MAKE_EVERY)
    };
    let is_due = is_due(read(&state.index).exports.made);
    let mut made = 0;
    while made < MAKE_BYTES_MAX && cache.memory().has_index_room() {
        let batch = write(&state.index).next_batch(is_due);
        let Some((batch, bytes)) = batch else { break };
        let snapshot = make(cache, state, &batch);
        // Where memory is full, the index of the snapshot evicts rows. The rest of their snapshots is exported again
        // here.
        cache.shrink();
        match snapshot {
            Ok(Some(snapshot)) => write(&state.index).show(snapshot),
            Ok(None) => return write(&state.index).take_back(batch),
            Err(error) => tracing::debug!(error = error.message(), "rows in memory are not shown to peers"),
        }
        made += bytes;
    }
    if is_due && made > 0 {
        write(&state.index).exports.made = now;
    }
}

fn make(cache: &CacheState, state: &PrefixState, batch: &Batch) -> Result<Option<Snapshot>> {
    let keys = |numbers: &mut dyn Iterator<Item = &Number>| -> Vec<RowKey> {
        let index = read(&state.index);
        numbers.map(|&number| index.key_of(number)).collect()
    };
    match batch {
        Batch::Rows(segments) => {
            let keys = keys(&mut segments.iter().flat_map(|(_, segment)| &segment.numbers));
            Snapshot::of_rows(&cache.header(state, false), &state.shapes, &keys, segments, cache.memory())
        }
        Batch::FilteredOut(numbers) => {
            Snapshot::of_filtered_out(&cache.header(state, true), &keys(&mut numbers.iter()), cache.memory())
        }
    }
}
