//! `Tokens` and `Megatron`: rows that are runs of token ids in flat files, located by offsets alone.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::{Epoch, Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, FixedTensorBuilder, Int32Lists, RowId, Schema};

use super::bytes::piece::Piece;
use super::bytes::pieces::{self, Layout};
use super::bytes::pool::Pool;
use super::reader::{Chunks, Place, Reader, check, ids, stream_counted};
use crate::formats::tokens::{narrow, widen};
use crate::index::table::Table;

pub(crate) struct Tokens {
    schema: Arc<Schema>,
    pool: Pool,
    /// For rows of one length: the type of a stored id, and the ids of a row. Documents have their own type.
    even: Option<(DType, usize)>,
}

/// The place of a row, and the type of its ids.
struct Run {
    file: usize,
    offset: u64,
    len: usize,
    dtype: DType,
}

impl Tokens {
    /// `even`: for rows of one length, the type of an id and the ids of a row.
    pub(crate) fn new(schema: Arc<Schema>, pool: Pool, even: Option<(DType, usize)>) -> Self {
        Self { schema, pool, even }
    }

    fn run(&self, id: &RowId) -> Result<Run> {
        let (file, row) = (id.sample.block() as usize, id.sample.row());
        let table = self.pool.index.inner().tables.get(file).map(|table| &**table);
        let (span, dtype) = match (table, self.even) {
            (Some(Table::Even(even)), Some((dtype, length))) => {
                let len = (length * dtype.size()) as u64;
                (even.span(row).filter(|span| span.len == len), dtype)
            }
            (Some(Table::Documents(documents)), None) => (documents.span(row as usize), documents.dtype),
            _ => (None, DType::Bool),
        };
        let span = span.ok_or_else(|| Error::internal(format!("the index has no row {}", id.sample)))?;
        Ok(Run { file, offset: span.offset, len: span.len as usize, dtype })
    }

    /// Adds the row of an invalid id to an error.
    fn blame(&self, error: Error, id: &RowId, run: &Run) -> Error {
        let uri = self.pool.index.inner().uris.get(run.file).map_or("", |uri| uri);
        error.with("file", uri).with("offset", run.offset).with("sample", self.pool.index.describe_sample(id.sample))
    }

    /// Makes a column of rows of one length.
    fn fixed(&self, ids: &[RowId], runs: &[Run], bytes: &[u8], length: usize) -> Result<ArrayRef> {
        let mut column = FixedTensorBuilder::new(DType::Int64, &[length], runs.len());
        let rows = column.all_as::<i64>().chunks_exact_mut(length.max(1));
        let mut at = 0;
        for ((row, run), id) in rows.zip(runs).zip(ids) {
            widen(run.dtype, &bytes[at..at + run.len], row).map_err(|e| self.blame(e, id, run))?;
            at += run.len;
        }
        column.finish()
    }

    /// Makes a column of lists.
    fn lists(&self, ids: &[RowId], runs: &[Run], bytes: &[u8]) -> Result<ArrayRef> {
        let mut numbers = Vec::new();
        let mut ends = Vec::with_capacity(runs.len());
        let mut at = 0;
        for (run, id) in runs.iter().zip(ids) {
            let (from, count) = (numbers.len(), run.len / run.dtype.size());
            let end = i32::try_from(from + count).map_err(|_| {
                Error::new(ErrorKind::Exhausted, "more than 2^31 token ids are read at once")
                    .hint("use smaller batches")
            })?;
            numbers.resize(from + count, 0);
            narrow(run.dtype, &bytes[at..at + run.len], &mut numbers[from..]).map_err(|e| self.blame(e, id, run))?;
            ends.push(end);
            at += run.len;
        }
        Int32Lists::column(numbers, &ends)
    }
}

impl Reader for Tokens {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.pool.index, places)?;
        let ids = ids(&self.pool.index, places);
        let mut layout = Layout::new(ids.len());
        let runs = ids.iter().map(|id| self.run(id)).collect::<Result<Vec<_>>>()?;
        let piece =
            |run: &Run| Piece { file: run.file, offset: run.offset, len: run.len, buffer: 0, at: layout.push(run.len) };
        let wanted = runs.iter().map(piece).collect();
        let mut buffers = [layout.buffer()?];
        pieces::read(&self.pool, wanted, &mut buffers)?;
        let column = match self.even {
            Some((_, length)) => self.fixed(&ids, &runs, &buffers[0], length)?,
            None => self.lists(&ids, &runs, &buffers[0])?,
        };
        Chunk::new(self.schema.clone(), vec![column], ids)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        stream_counted(self, &self.pool.index, block, epoch, rows)
    }
}
