//! Readers: rows by place, or a block from its start.
//!
//! Every reader returns the same row for the same sample id both ways; the tests check each reader for this.

mod blocks;
pub(crate) mod files;
pub(crate) mod frames;
mod group;
mod groups;
mod lru;
pub(crate) mod mds;
pub(crate) mod memory;
mod options;
mod packed;
pub(crate) mod partitioned;
mod parts;
mod pieces;
mod pool;
pub(crate) mod range;
pub(crate) mod tar;
pub(crate) mod tokens;
mod unpacked;
pub(crate) mod windows;

use std::sync::Arc;

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, RowId, Schema};
use forebay_plan::LaneWindow;

use crate::SourceIndex;
pub(crate) use groups::Groups;
pub use options::ReadOptions;
pub(crate) use pool::Pool;

/// A row to read, and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The row's number among all rows of the source, from 0.
    pub row: u64,
    /// The epoch that keys the randomness; it becomes part of the row's name.
    pub epoch: Epoch,
}

/// Chunks in order. After an error the iterator ends.
pub type Chunks<'a> = Box<dyn Iterator<Item = Result<Chunk>> + Send + 'a>;

/// Until it is dropped, or the window is read, this process reads no later window of the same lanes.
pub struct WindowAnnouncement {
    _expected: Box<dyn Send>,
}

impl WindowAnnouncement {
    fn new(expected: impl Send + 'static) -> Self {
        Self { _expected: Box::new(expected) }
    }
}

/// Reads one source. Any number of threads may use a reader in parallel.
pub trait Reader: Send + Sync {
    /// Returns the columns of a row.
    fn schema(&self) -> &Arc<Schema>;

    /// Reads these rows in this order. Needs a counted index.
    ///
    /// # Errors
    /// Data when a row is corrupt or its file has changed, with the file, the offset and the row's name; NotFound,
    /// PermissionDenied, Unavailable of a file; Internal for a row that does not exist.
    fn gather(&self, places: &[Place]) -> Result<Chunk>;

    /// Reads a block from its start, in chunks of at most `rows` rows, all but the last of exactly that many. A row
    /// that cannot be decoded counts as a row if the next one can still be found: its chunk omits the row and records
    /// its error.
    ///
    /// # Errors
    /// As [`Reader::gather`], at once or from the iterator.
    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>>;

    /// Reads a window of a shuffle whose rows are not counted, in chunks like [`Reader::stream`].
    ///
    /// # Errors
    /// As [`Reader::gather`], at once or from the iterator; Internal for a source without windows.
    fn window(&self, window: &LaneWindow, rows: usize) -> Result<Chunks<'_>> {
        let _ = rows;
        Err(Error::internal(format!("window {} is of a source whose rows are counted", window.number)))
    }

    /// Announces that a thread will read a window. Threads that announce windows in order may read them in any order:
    /// their bytes are requested once. A thread that will not read it drops the announcement.
    fn announce_window(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        let _ = window;
        None
    }
}

/// Returns the ids of rows.
fn ids(index: &SourceIndex, places: &[Place]) -> Arc<[RowId]> {
    places.iter().map(|p| RowId { sample: index.locate(p.row), epoch: p.epoch }).collect()
}

/// Returns the ids of the rows of a block from `first` on.
fn block_ids(block: u64, first: u64, rows: usize, epoch: Epoch) -> Arc<[RowId]> {
    (first..first + rows as u64).map(|row| RowId { sample: SampleId::new(block, row), epoch }).collect()
}

/// Refuses rows that do not exist.
fn check(index: &SourceIndex, places: &[Place]) -> Result<()> {
    let rows = index.rows().ok_or_else(|| Error::internal("the index is not counted"))?;
    match places.iter().find(|p| p.row >= rows) {
        Some(p) => Err(Error::internal(format!("there is no row {}: the source has {rows}", p.row))),
        None => Ok(()),
    }
}

/// Returns the first row when the places are consecutive.
fn consecutive(places: &[Place]) -> Option<u64> {
    let first = places.first()?.row;
    places.iter().zip(first..).all(|(p, row)| p.row == row).then_some(first)
}

/// Streams a block of a counted index by gathering its rows in order.
fn stream_counted<'a>(
    reader: &'a dyn Reader,
    index: &SourceIndex,
    block: u64,
    epoch: Epoch,
    rows: usize,
) -> Result<Chunks<'a>> {
    let range = index.block_rows(block).ok_or_else(|| Error::internal(format!("there is no block {block}")))?;
    let step = rows.max(1) as u64;
    let mut next = range.start;
    Ok(Box::new(std::iter::from_fn(move || {
        let end = range.end.min(next.saturating_add(step));
        if next >= end {
            return None;
        }
        let places: Vec<_> = (next..end).map(|row| Place { row, epoch }).collect();
        let chunk = reader.gather(&places);
        next = if chunk.is_ok() { end } else { range.end };
        Some(chunk)
    })))
}
