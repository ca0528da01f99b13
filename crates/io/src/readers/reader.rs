//! The interface of readers, and their common code: names of rows, and blocks that are read by gathering their rows.

use std::sync::Arc;

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, RowId, Schema};
use forebay_plan::LaneWindow;

use crate::SourceIndex;

/// A row to read, and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The row's number among all rows of the source, from 0.
    pub row: u64,
    /// The epoch that keys the row's randomness. The row's id contains it.
    pub epoch: Epoch,
}

/// Chunks in order. An error ends them.
pub type Chunks<'a> = Box<dyn Iterator<Item = Result<Chunk>> + Send + 'a>;

/// Until it is dropped, or the window is read, this process reads no later window of the same lanes.
pub struct WindowAnnouncement {
    _expected: Box<dyn Send>,
}

impl WindowAnnouncement {
    pub(super) fn new(expected: impl Send + 'static) -> Self {
        Self { _expected: Box::new(expected) }
    }
}

/// Reads one source. Any number of threads may use a reader at once.
pub trait Reader: Send + Sync {
    /// Returns the columns of a row.
    fn schema(&self) -> &Arc<Schema>;

    /// Reads these rows in this order. Needs a counted index.
    ///
    /// # Errors
    /// Data when a row is corrupt or its file has changed, with the file, the offset and the row's name; NotFound,
    /// PermissionDenied or Unavailable for a file; Internal for a row that does not exist.
    fn gather(&self, places: &[Place]) -> Result<Chunk>;

    /// Reads a block from its start, in chunks of `rows` rows; the last chunk may have fewer. If a row cannot be
    /// decoded but the next row can be found, the chunk lists the row as skipped, and the row counts among its `rows`.
    ///
    /// # Errors
    /// As [`Reader::gather`], at once or from the iterator.
    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>>;

    /// Reads a window of a shuffle whose rows are not counted, in chunks as [`Reader::stream`], from chunk
    /// `first_chunk` of the window on. Chunks before it are not decoded.
    ///
    /// # Errors
    /// As [`Reader::gather`], at once or from the iterator; Internal for a source whose rows are counted.
    fn window(&self, window: &LaneWindow, rows: usize, first_chunk: u64) -> Result<Chunks<'_>> {
        let _ = (rows, first_chunk);
        Err(Error::internal(format!("window {} is of a source whose rows are counted", window.number)))
    }

    /// Announces that a thread is about to read a window; `None` for a source without windows. Threads that announce
    /// windows in order may read them in any order, and each byte is requested once. A thread that will not read the
    /// window drops the announcement.
    fn announce_window(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        let _ = window;
        None
    }
}

/// Names rows.
pub(super) fn ids(index: &SourceIndex, places: &[Place]) -> Arc<[RowId]> {
    let mut locate = index.locator();
    places.iter().map(|p| RowId { sample: locate(p.row), epoch: p.epoch }).collect()
}

/// Names the rows of a block from `first` on.
pub(super) fn block_ids(block: u64, first: u64, rows: usize, epoch: Epoch) -> Arc<[RowId]> {
    (first..first + rows as u64).map(|row| RowId { sample: SampleId::new(block, row), epoch }).collect()
}

/// Refuses rows that do not exist.
pub(super) fn check(index: &SourceIndex, places: &[Place]) -> Result<()> {
    let rows = index.rows().ok_or_else(|| Error::internal("the index is not counted"))?;
    match places.iter().find(|p| p.row >= rows) {
        Some(p) => Err(Error::internal(format!("there is no row {}: the source has {rows}", p.row))),
        None => Ok(()),
    }
}

/// Returns the first row when the places are consecutive.
pub(super) fn consecutive(places: &[Place]) -> Option<u64> {
    let first = places.first()?.row;
    places.iter().zip(first..).all(|(p, row)| p.row == row).then_some(first)
}

/// Streams a block of a counted index by gathering its rows in order.
pub(super) fn stream_counted<'a>(
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
