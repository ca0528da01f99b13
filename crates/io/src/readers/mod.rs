//! Rows by place, or a block from its start.
//!
//! Every reader gives the same row for the same sample id both ways; that is what the tests hold each one to.

mod blocks;
mod files;
mod frames;
mod group;
mod groups;
mod lru;
mod mds;
mod memory;
mod packed;
mod partitioned;
mod parts;
mod pieces;
mod pool;
mod range;
mod tar;
mod tokens;
mod unpacked;
pub(crate) mod windows;

use std::sync::Arc;

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, RowId, Schema};
use forebay_plan::{LaneWindow, Source};

use crate::formats::{arrow, parquet};
use crate::{Blobs, ReadOptions, SourceIndex};
use groups::Groups;
use pool::Pool;

/// Which row to read, and for which time round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The row's number among all rows of the source, from 0.
    pub row: u64,
    /// The epoch that randomness is keyed by; it is handed on in the row's name.
    pub epoch: Epoch,
}

/// Chunks in order. After an error there is no more.
pub type Chunks<'a> = Box<dyn Iterator<Item = Result<Chunk>> + Send + 'a>;

/// While it lives, or until the window is read, no later window of the same lanes is read in this process.
pub struct WindowAnnouncement {
    _expected: Box<dyn Send>,
}

impl WindowAnnouncement {
    fn new(expected: impl Send + 'static) -> Self {
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
    /// Data when a row is corrupt or its file has changed, with file, offset and what names the row; NotFound,
    /// PermissionDenied, Unavailable of a file; Internal for a row that is not there.
    fn gather(&self, places: &[Place]) -> Result<Chunk>;

    /// Reads a block from its start, in chunks of at most `rows` rows, all but the last of exactly that many. A row that
    /// cannot be decoded, where the next one can still be found, is one of them: its chunk lacks it, and says so.
    ///
    /// # Errors
    /// As [`Reader::gather`], at once or from the iterator.
    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>>;

    /// Reads a window of a shuffle whose rows are not counted, in chunks as [`Reader::stream`].
    ///
    /// # Errors
    /// As [`Reader::gather`], at once or from the iterator; Internal for a source that is never read so.
    fn window(&self, window: &LaneWindow, rows: usize) -> Result<Chunks<'_>> {
        let _ = rows;
        Err(Error::internal(format!("window {} is of a source whose rows are counted", window.number)))
    }

    /// Says that a thread is about to read a window. Threads that announce windows in order may read them in any: their bytes are asked for
    /// once. A thread that will not read it drops the announcement.
    fn announce_window(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        let _ = window;
        None
    }
}

/// See [`crate::open`].
pub(crate) fn open(
    source: &Source,
    index: SourceIndex,
    blobs: &dyn Blobs,
    options: ReadOptions,
) -> Result<Arc<dyn Reader>> {
    use crate::index::Layout as L;
    let fits = match source {
        Source::Memory { .. } | Source::Range { .. } => index.rows() == source.rows(),
        Source::Files { .. } => index.inner().layout == L::Files,
        Source::ImageFolder { .. } => {
            index.inner().layout == L::Files && index.inner().labels.len() == index.inner().uris.len()
        }
        Source::Parquet { .. } | Source::Arrow { .. } => {
            let are_named =
                source.partitions().next().is_none() || index.inner().labels.len() == index.inner().uris.len();
            index.inner().layout == L::Groups && are_named
        }
        Source::MapDataset { .. } | Source::Generator { .. } => {
            return Err(Error::internal(format!("{} is read by python", source.name())));
        }
        _ => matches!(index.inner().layout, L::PerFile { .. }),
    };
    if !fits {
        return Err(Error::internal(format!("the index is not one of {}", source.name())));
    }
    let schema = Arc::new(source.schema()?);
    let ReadOptions { near, window_rows, budget } = options;
    let pool = |index| Pool::new(index, near, budget);
    Ok(match source {
        Source::Memory { blob, .. } => Arc::new(memory::Memory::open(schema, index, blobs.get(blob)?)?),
        Source::Range { start, step, .. } => Arc::new(range::Range::new(schema, index, *start, *step)),
        Source::Files { .. } | Source::ImageFolder { .. } => Arc::new(files::Files::new(schema, pool(index))),
        Source::Tar { extensions, .. } => Arc::new(tar::Tar::new(schema, pool(index), extensions.clone())),
        Source::Tokens { .. } | Source::Megatron { .. } => Arc::new(tokens::Tokens::new(schema, pool(index), source)),
        Source::Mds { columns, fields, .. } => {
            Arc::new(mds::Mds::new(schema, pool(index), columns.clone(), fields.clone(), None, window_rows)?)
        }
        Source::Litdata { columns, fields, wrap, .. } => {
            Arc::new(mds::Mds::new(schema, pool(index), columns.clone(), fields.clone(), Some(*wrap), window_rows)?)
        }
        Source::Parquet { .. } => partitioned::over(source, schema, index, |schema, index| {
            Arc::new(Groups::<parquet::File>::new(schema, source.merged().cloned(), pool(index), window_rows))
        })?,
        Source::Arrow { .. } => partitioned::over(source, schema, index, |schema, index| {
            Arc::new(Groups::<arrow::File>::new(schema, source.merged().cloned(), pool(index), window_rows))
        })?,
        other => Arc::new(frames::Frames::new(schema, pool(index), frames::Format::of(other)?)),
    })
}

/// Names rows.
fn ids(index: &SourceIndex, places: &[Place]) -> Arc<[RowId]> {
    places.iter().map(|p| RowId { sample: index.locate(p.row), epoch: p.epoch }).collect()
}

/// Names the rows of a block from `first` on.
fn block_ids(block: u64, first: u64, rows: usize, epoch: Epoch) -> Arc<[RowId]> {
    (first..first + rows as u64).map(|row| RowId { sample: SampleId::new(block, row), epoch }).collect()
}

/// Refuses rows that are not there.
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
