//! Adds the columns of file paths to the rows of those files.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::{Epoch, Error, Result};
use forebay_data::{Chunk, Schema};
use forebay_plan::Source;

use super::{Chunks, Place, Reader};
use crate::partitions;
use crate::{SourceIndex, rows};

/// A reader of files that also returns the columns of their paths.
struct Partitioned {
    schema: Arc<Schema>,
    stored: Arc<dyn Reader>,
    index: SourceIndex,
    /// For each column of the schema that paths have, its value for each file.
    said: Vec<Option<ArrayRef>>,
}

/// Opens a source by `open`, which receives the columns that the files have.
///
/// # Errors
/// As [`partitions::column`].
pub(crate) fn over(
    source: &Source,
    schema: Arc<Schema>,
    index: SourceIndex,
    open: impl FnOnce(Arc<Schema>, SourceIndex) -> Arc<dyn Reader>,
) -> Result<Arc<dyn Reader>> {
    if source.partitions().next().is_none() {
        return Ok(open(schema, index));
    }
    let is_said = |name: &str| source.partitions().any(|field| field.name == name);
    let stored = schema.fields().iter().filter(|field| !is_said(&field.name)).cloned().collect();
    let (uris, begins) = (&index.inner().uris, &index.inner().labels);
    let said = schema.fields().iter().map(|field| match is_said(&field.name) {
        true => partitions::column(field, uris, begins).map(Some),
        false => Ok(None),
    });
    let said = said.collect::<Result<_>>()?;
    let stored = open(Arc::new(Schema::new(stored)?), index.clone());
    Ok(Arc::new(Partitioned { schema, stored, index, said }))
}

impl Partitioned {
    /// Adds the columns that the paths have.
    fn complete(&self, chunk: &Chunk) -> Result<Chunk> {
        let mut last = None;
        let file = |block: u64| match last {
            Some((of, file)) if of == block => file,
            _ => last.insert((block, self.index.file_of(block).0)).1,
        };
        let files: Vec<usize> = chunk.ids().iter().map(|id| id.sample.block()).map(file).collect();
        let mut stored = chunk.columns().iter();
        let column = |(field, said): (&forebay_data::Field, &Option<ArrayRef>)| match said {
            Some(values) => rows::take(&field.kind, values, &files),
            None => stored.next().cloned().ok_or_else(|| Error::internal("a column was not read")),
        };
        let columns = self.schema.fields().iter().zip(&self.said).map(column).collect::<Result<_>>()?;
        Ok(chunk.with_columns(self.schema.clone(), columns)?.with_losses(chunk.losses().to_vec()))
    }
}

impl Reader for Partitioned {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        self.complete(&self.stored.gather(places)?)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        let chunks = self.stored.stream(block, epoch, rows)?;
        Ok(Box::new(chunks.map(|chunk| self.complete(&chunk?))))
    }
}
