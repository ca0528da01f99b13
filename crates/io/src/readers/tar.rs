//! `Tar`: WebDataset shards.

use std::sync::Arc;

use arrow_buffer::NullBufferBuilder;
use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, Kind, Loss, RowId, Schema};

use super::pieces::{self, Layout, Piece};
use super::pool::Pool;
use super::{Chunks, Place, Reader, block_ids, check, ids, stream_counted};
use crate::columns::{Binary, binary};
use crate::fail;
use crate::formats::compressed;
use crate::formats::tar::{Samples, lacks};
use crate::index::table::{Table, TarTable};

pub(super) struct Tar {
    schema: Arc<Schema>,
    pool: Pool,
    extensions: Vec<String>,
}

impl Tar {
    pub(super) fn new(schema: Arc<Schema>, pool: Pool, extensions: Vec<String>) -> Self {
        Self { schema, pool, extensions }
    }

    fn table(&self, sample: SampleId) -> Result<&TarTable> {
        match self.pool.index.inner().tables.get(sample.block() as usize).map(|t| &**t) {
            Some(Table::Tar(table)) => Ok(table),
            _ => Err(Error::internal("the index has no samples")),
        }
    }

    /// Says whether a sample may lack an extension.
    fn is_optional(&self, extension: usize) -> bool {
        self.schema.fields().get(extension + 1).is_some_and(|field| field.nullable)
    }

    fn uri(&self, block: u64) -> &str {
        self.pool.index.inner().uris.get(block as usize).map_or("", |u| u)
    }
}

impl Reader for Tar {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.pool.index, places)?;
        let ids = ids(&self.pool.index, places);
        let width = self.extensions.len();
        let mut keys = Binary::new();
        let mut layouts: Vec<Layout> = (0..width).map(|_| Layout::new(ids.len())).collect();
        let mut there: Vec<NullBufferBuilder> = (0..width).map(|_| NullBufferBuilder::new(ids.len())).collect();
        let mut wanted = Vec::with_capacity(ids.len() * width);
        for id in ids.iter() {
            let (table, row) = (self.table(id.sample)?, id.sample.row() as usize);
            keys.push(table.key(row).as_bytes());
            for (buffer, layout) in layouts.iter_mut().enumerate() {
                let span = table.span(row, buffer, width);
                there[buffer].append(span.is_some());
                let Some(span) = span else {
                    if self.is_optional(buffer) {
                        layout.push(0);
                        continue;
                    }
                    let error = lacks(self.uri(id.sample.block()), table.key(row), &self.extensions[buffer]);
                    return Err(error.with("sample", self.pool.index.describe_sample(id.sample)));
                };
                let (file, len) = (id.sample.block() as usize, span.len as usize);
                wanted.push(Piece { file, offset: span.offset, len, buffer, at: layout.push(len) });
            }
        }
        let mut buffers: Vec<Vec<u8>> = layouts.iter().map(Layout::buffer).collect::<Result<_>>()?;
        pieces::read(&self.pool, wanted, &mut buffers)?;
        let mut columns = vec![keys.finish(&Kind::Utf8, None)?];
        for ((layout, buffer), mut there) in layouts.into_iter().zip(buffers).zip(there) {
            columns.push(binary(&Kind::Bytes, layout.offsets, buffer, there.finish())?);
        }
        Chunk::new(self.schema.clone(), columns, ids)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        if self.pool.index.rows().is_some() {
            return stream_counted(self, &self.pool.index, block, epoch, rows);
        }
        let forward = self.pool.forward(block as usize, compressed::codec)?;
        let samples = Samples::new(forward, &self.extensions);
        Ok(Box::new(Stream { reader: self, samples, block, epoch, rows: rows.max(1), row: 0, over: false }))
    }
}

/// Reads a shard from its start without an index.
struct Stream<'a> {
    reader: &'a Tar,
    samples: Samples<'a>,
    block: u64,
    epoch: Epoch,
    rows: usize,
    row: u64,
    over: bool,
}

impl Stream<'_> {
    fn chunk(&mut self) -> Result<Option<Chunk>> {
        let extensions = &self.reader.extensions;
        let mut keys = Binary::new();
        let mut columns: Vec<Binary> = extensions.iter().map(|_| Binary::new()).collect();
        let mut there: Vec<NullBufferBuilder> = extensions.iter().map(|_| NullBufferBuilder::new(self.rows)).collect();
        let (mut rows, mut lost) = (0, Vec::new());
        while rows < self.rows {
            let sample = self.samples.next(|forward, place, span| {
                let bytes = forward.at(span.offset, span.len as usize)?;
                if bytes.len() as u64 != span.len {
                    let object = forward.object();
                    return Err(
                        fail::truncated(object.uri(), "the archive ends within a member").with("offset", span.offset)
                    );
                }
                columns[place].push(bytes);
                Ok(())
            })?;
            let Some(sample) = sample else { break };
            let mut lack = None;
            for (place, span) in sample.spans.iter().enumerate() {
                let is_required = !self.reader.is_optional(place);
                there[place].append(span.is_some() || is_required);
                if span.is_none() {
                    columns[place].push(&[]);
                    lack = lack.or(is_required.then_some(place));
                }
            }
            lost.push(lack.map(|place| {
                let error = lacks(self.reader.uri(self.block), &sample.key, &extensions[place]);
                error.with("offset", sample.header)
            }));
            keys.push(sample.key.as_bytes());
            rows += 1;
        }
        self.over = rows < self.rows;
        if rows == 0 {
            return Ok(None);
        }
        let ids = block_ids(self.block, self.row, rows, self.epoch);
        self.row += rows as u64;
        let mut arrays = vec![keys.finish(&Kind::Utf8, None)?];
        for (column, mut there) in columns.into_iter().zip(there) {
            arrays.push(column.finish(&Kind::Bytes, there.finish())?);
        }
        let chunk = Chunk::new(self.reader.schema.clone(), arrays, ids)?;
        if lost.iter().all(Option::is_none) { Ok(Some(chunk)) } else { self.without(&chunk, lost).map(Some) }
    }

    /// Leaves out the rows that have an error.
    fn without(&self, chunk: &Chunk, lost: Vec<Option<Error>>) -> Result<Chunk> {
        let kept = chunk.filter(&lost.iter().map(|error| Some(error.is_none())).collect())?;
        let loss = |(row, error): (&RowId, Option<Error>)| {
            let error = error?.with("sample", self.reader.pool.index.describe_sample(row.sample));
            Some(Loss { row: *row, error, record: None })
        };
        Ok(kept.with_losses(chunk.ids().iter().zip(lost).filter_map(loss).collect()))
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let chunk = self.chunk();
        self.over |= chunk.is_err();
        chunk.transpose()
    }
}
