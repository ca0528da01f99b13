//! The snapshots for peers of rows in memory: rows that were computed here, or read from the store, and that are on no
//! disk.
//!
//! A snapshot is of segments in the order of their arrival, until about [`BLOCK_BYTES`] are together. When a segment
//! leaves memory, its snapshot is dropped, and the other segments of it go into another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::rows::index::Index;
use crate::rows::number::Number;
use crate::rows::segment::Segment;
use crate::tiers::peers::exports::snapshot::{ROW_BYTES, Snapshot};

/// The bytes of a full snapshot; a segment that is larger makes one by itself.
const BLOCK_BYTES: u64 = 8 << 20;
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
    pub(super) snapshots: HashMap<String, Arc<Snapshot>>,
    /// The snapshot of each segment, if it is in one.
    of: HashMap<u32, Arc<Snapshot>>,
    /// The time of the last snapshot that was not full.
    pub(super) made: Option<u64>,
}

/// The content of a snapshot.
pub(super) enum Batch {
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
    pub(super) fn next_batch(&mut self, is_due: bool) -> Option<(Batch, u64)> {
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
    pub(super) fn show(&mut self, snapshot: Snapshot) {
        if snapshot.segments.iter().all(|id| self.segment(*id).is_some()) {
            self.exports.put(snapshot);
        } else {
            self.export_segments(snapshot.segments);
        }
    }

    pub(super) fn take_back(&mut self, batch: Batch) {
        match batch {
            Batch::Rows(segments) => self.export_segments(segments.iter().map(|(id, _)| *id)),
            Batch::FilteredOut(numbers) => self.exports.filtered_out.extend(numbers),
        }
    }
}
