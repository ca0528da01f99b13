//! The snapshots for peers of rows in memory: rows that were computed here, or read from the store, and that are on no
//! disk.
//!
//! Snapshots are made when a peer lists the blocks: of segments in the order of their arrival, up to about
//! [`BLOCK_BYTES`]. Rows that arrived since the last full snapshot make a smaller one, at most every [`MAKE_EVERY`].
//! When a segment leaves memory, its snapshot is dropped, and the snapshot's other segments become part of another one.
//!
//! Bounds: a process makes one snapshot at a time, and holds three copies of its rows meanwhile. Snapshots count
//! towards the quota of the index. One listing makes at most [`MAKE_BYTES_MAX`] of snapshots.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Result;

use crate::lock::{read, write};
use crate::rows::index::{Index, Number, Segment};
use crate::state::{CacheState, PrefixState};
use crate::tiers::peers::exports::snapshot::{ROW_BYTES, Snapshot};

/// The bytes of a full snapshot; a segment that is larger makes one by itself.
const BLOCK_BYTES: u64 = 8 << 20;
/// The most bytes of snapshots that one listing makes: this takes some tenths of a second.
const MAKE_BYTES_MAX: u64 = 128 << 20;
/// The least interval of snapshots that are not full.
const MAKE_EVERY: Duration = Duration::from_millis(250);
/// The most rows in a snapshot of rows that a filter removed.
const FILTERED_OUT_MAX: usize = 100_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct ExportIndex {
    /// Segments that are in no snapshot.
    fresh: BTreeSet<u32>,
    /// Rows that a filter removed, and that are in no snapshot.
    filtered_out: Vec<Number>,
    /// By name.
    snapshots: HashMap<String, Arc<Snapshot>>,
    /// The snapshot of each segment, if it is in one.
    of: HashMap<u32, Arc<Snapshot>>,
    /// The time of the last snapshot that was not full.
    made: Option<u64>,
}

/// The content of a snapshot.
enum Batch {
    Rows(Vec<(u32, Arc<Segment>)>),
    FilteredOut(Vec<Number>),
}

impl ExportIndex {
    /// Exports rows that a filter removed.
    pub(crate) fn add_filtered_out(&mut self, numbers: &[Number]) {
        self.filtered_out.extend_from_slice(numbers);
    }

    /// Drops a segment, and its snapshot.
    pub(crate) fn forget(&mut self, segment: u32) {
        self.fresh.remove(&segment);
        let Some(snapshot) = self.of.remove(&segment) else { return };
        self.snapshots.remove(&snapshot.name.name);
        let others = snapshot.segments.iter().filter(|other| self.of.remove(other).is_some());
        self.fresh.extend(others);
    }

    /// Returns a snapshot by its name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(name)
    }

    fn put(&mut self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        self.of.extend(snapshot.segments.iter().map(|id| (*id, snapshot.clone())));
        self.snapshots.insert(snapshot.name.name.clone(), snapshot);
    }
}

impl Index {
    /// Exports segments from now on, if they are still in memory.
    pub(crate) fn export_segments(&mut self, segments: impl IntoIterator<Item = u32>) {
        for id in segments {
            if self.segment(id).is_some() {
                self.exports.fresh.insert(id);
            }
        }
    }

    /// Takes the content of the next snapshot, and its approximate bytes.
    fn next_batch(&mut self, is_due: bool) -> Option<(Batch, u64)> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for &id in &self.exports.fresh {
            let Some(segment) = self.segment(id) else { continue };
            bytes += segment.table.bytes() as u64 + segment.table.rows() as u64 * ROW_BYTES;
            batch.push((id, segment.clone()));
            if bytes >= BLOCK_BYTES {
                break;
            }
        }
        if !batch.is_empty() && (bytes >= BLOCK_BYTES || is_due) {
            batch.iter().for_each(|(id, _)| _ = self.exports.fresh.remove(id));
            return Some((Batch::Rows(batch), bytes));
        }
        let rows = self.exports.filtered_out.len().min(FILTERED_OUT_MAX);
        let makes = rows > 0 && (rows == FILTERED_OUT_MAX || is_due);
        makes.then(|| (Batch::FilteredOut(self.exports.filtered_out.drain(..rows).collect()), rows as u64 * ROW_BYTES))
    }

    /// Exports a snapshot, unless one of its segments left memory meanwhile: then its other segments wait for the next
    /// one.
    fn show(&mut self, snapshot: Snapshot) {
        if snapshot.segments.iter().all(|id| self.segment(*id).is_some()) {
            self.exports.put(snapshot);
        } else {
            self.export_segments(snapshot.segments);
        }
    }

    fn take_back(&mut self, batch: Batch) {
        match batch {
            Batch::Rows(segments) => self.export_segments(segments.iter().map(|(id, _)| *id)),
            Batch::FilteredOut(numbers) => self.exports.filtered_out.extend(numbers),
        }
    }
}

/// Returns the snapshots of a prefix, and makes new ones. Snapshots that another thread is making appear in the next
/// listing.
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
        // Where memory is full, the index of the snapshot evicts rows. The other rows of their snapshots are exported
        // again here.
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
    match batch {
        Batch::Rows(segments) => Snapshot::of_rows(cache, state, segments),
        Batch::FilteredOut(numbers) => Snapshot::of_filtered_out(cache, state, numbers),
    }
}
