//! Reads the rows of a source: files and arrays through `io`, or a user's Python object.

use std::sync::Arc;

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, RowId, Schema};
use forebay_io::{Place, ReadOptions, ReadThrough, Reader, RowCondition, SourceIndex, WindowAnnouncement};
use forebay_plan::{BlobId, LaneWindow, Source, Stages};

use crate::cached::page_cached::PageCachedSource;
use crate::executable::environment::Environment;
use crate::executable::row_ids::{numbered, numbered_sample};
use crate::ops::functions::{Functions, Pickle};
use crate::ops::slices::Slices;
use crate::table::Condition;

/// The number of rows of a chunk that is read from a block of unknown length. It is a constant, because it determines
/// the input of a batched function.
const STREAM_ROWS: usize = 64;

/// The opened source of a pipeline.
pub(crate) enum RowSource {
    Files(Arc<dyn Reader>, SourceIndex),
    Combined(Arc<dyn CombinedSource>, SourceIndex),
    Items { dataset: Pickle, schema: Arc<Schema>, functions: Arc<dyn Functions>, slices: Slices },
    Generator { generator: Pickle, schema: Arc<Schema>, functions: Arc<dyn Functions> },
}

/// Datasets that are read as one. This is a trait, because the implementation runs ops, which this module does not
/// know.
pub(crate) trait CombinedSource: Send + Sync {
    /// Reads these rows in this order.
    fn gather(&self, places: &[Place]) -> Result<Chunk>;

    /// Returns a row of the dataset of this name, as it is before the ops of that dataset; `None` if it cannot be read.
    fn as_read(&self, place: Place, part: &str) -> Option<Chunk>;
}

impl RowSource {
    /// Opens a source other than datasets that are read as one; remote files are read through the page cache, if there
    /// is one. `others` is the number of readers with which it shares memory and open files.
    pub(crate) fn open(
        stages: &Stages,
        index: Option<SourceIndex>,
        page_cached: Option<&PageCachedSource>,
        (window_rows, others): (u64, usize),
        env: &Environment,
    ) -> Result<Self> {
        let source = &stages.source;
        let schema = Arc::new(source.schema()?);
        let pickle = |id: &BlobId| Ok::<_, Error>(Pickle { id: id.clone(), bytes: env.blobs.get(id)? });
        let functions = env.functions.clone();
        match source {
            Source::MapDataset { blob, .. } => {
                Ok(RowSource::Items { dataset: pickle(blob)?, schema, functions, slices: Slices::default() })
            }
            Source::Generator { blob, .. } => Ok(RowSource::Generator { generator: pickle(blob)?, schema, functions }),
            _ => {
                let index = index.ok_or_else(|| Error::internal("a source of files needs its index"))?;
                let near = page_cached.map(|source| Arc::new(source.clone()) as Arc<dyn ReadThrough>);
                let budget = env.memory.budget();
                let budget = if others > 0 { budget.divided(others + 1) } else { budget };
                let condition = |of| Arc::new(Condition::new(of)) as Arc<dyn RowCondition>;
                let conditions = stages.source_conditions().into_iter().map(condition).collect();
                let options = ReadOptions { near, window_rows, budget, others, conditions };
                Ok(RowSource::Files(forebay_io::open(source, index.clone(), env.blobs.as_ref(), options)?, index))
            }
        }
    }

    pub(crate) fn gather(&self, places: &[Place]) -> Result<Chunk> {
        match self {
            RowSource::Files(reader, _) => reader.gather(places),
            RowSource::Combined(rows, _) => rows.gather(places),
            RowSource::Items { dataset, schema, functions, slices } => {
                let rows: Vec<u64> = places.iter().map(|p| p.row).collect();
                slices.call(rows.len(), &|slice| {
                    functions.items(dataset, &rows[slice.clone()], numbered(&places[slice]), schema)
                })
            }
            RowSource::Generator { .. } => Err(Error::internal("a generator has no rows to pick")),
        }
    }

    /// Returns a row that an op of a dataset of this name failed on, as that dataset read it. `None` if no dataset of that
    /// name has it, or it cannot be read.
    pub(crate) fn as_read(&self, place: Place, part: &str) -> Option<Chunk> {
        if let RowSource::Combined(rows, _) = self { rows.as_read(place, part) } else { None }
    }

    /// Returns the sample id of a counted row, and its name for the user.
    pub(crate) fn name(&self, row: u64) -> (SampleId, String) {
        let sample = self.sample(row);
        match self {
            RowSource::Files(_, index) | RowSource::Combined(_, index) => (sample, index.describe_sample(sample)),
            _ => (sample, format!("row {row}")),
        }
    }

    /// Returns the sample id of a counted row.
    pub(crate) fn sample(&self, row: u64) -> SampleId {
        match self {
            RowSource::Files(_, index) | RowSource::Combined(_, index) => index.locate(row),
            _ => numbered_sample(row),
        }
    }

    /// Announces that a thread is about to read a window.
    pub(crate) fn announce(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        match self {
            RowSource::Files(reader, _) => reader.announce_window(window),
            RowSource::Combined(..) | RowSource::Items { .. } | RowSource::Generator { .. } => None,
        }
    }

    /// Reads a block from its start, or a window of a shuffle, and passes the rows to `see` chunk by chunk, from chunk
    /// `first_chunk` on; an error, also of an earlier chunk, comes last.
    pub(crate) fn stream(
        &self,
        (block, first_chunk): (u64, u64),
        window: Option<&LaneWindow>,
        epoch: Epoch,
        see: &mut dyn FnMut(Result<Chunk>) -> Result<()>,
    ) -> Result<()> {
        let mut index = 0;
        let mut see_from_first = |chunk: Result<Chunk>| {
            index += 1;
            if index > first_chunk || chunk.is_err() { see(chunk) } else { Ok(()) }
        };
        match (self, window) {
            (RowSource::Files(reader, _), Some(window)) => match reader.window(window, STREAM_ROWS, first_chunk) {
                Ok(mut chunks) => chunks.try_for_each(see),
                Err(e) => see(Err(e)),
            },
            (RowSource::Files(reader, _), None) => match reader.stream(block, epoch, STREAM_ROWS) {
                Ok(mut chunks) => chunks.try_for_each(see_from_first),
                Err(e) => see(Err(e)),
            },
            (RowSource::Combined(..) | RowSource::Items { .. }, _) => {
                Err(Error::internal("counted rows are not read as a block"))
            }
            (RowSource::Generator { generator, schema, functions }, _) => {
                let mut row = 0u64;
                functions.generate(generator, STREAM_ROWS, schema, &mut |columns, rows| {
                    let ids = (row..row + rows as u64).map(|r| RowId { sample: SampleId::new(0, r), epoch }).collect();
                    row += rows as u64;
                    see_from_first(Chunk::new(schema.clone(), columns, ids))
                })
            }
        }
    }
}
