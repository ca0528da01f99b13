//! `Tar`: WebDataset shards.

use std::sync::Arc;

use arrow_buffer::NullBufferBuilder;
use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, Kind, Loss, RowId, Schema};
use forebay_plan::LaneWindow;

use super::bytes::piece::Piece;
use super::bytes::pieces::{self, Layout};
use super::bytes::pool::Pool;
use super::reader::{Chunks, Place, Reader, WindowAnnouncement, block_ids, check, ids, stream_counted};
use super::windows::{Sequential, Windows, content_offset, end_position, offset_of, position, sample_at};
use crate::columns::{Binary, binary};
use crate::fail;
use crate::formats::compressed;
use crate::formats::tar::{Samples, lacks};
use crate::index::table::{Span, Table, TarTable};
use crate::store::{CodecOf, Forward};

pub(crate) struct Tar {
    schema: Arc<Schema>,
    pool: Pool,
    extensions: Vec<String>,
    windows: Windows<Self>,
}

impl Tar {
    pub(crate) fn new(schema: Arc<Schema>, pool: Pool, extensions: Vec<String>) -> Self {
        Self { schema, pool, extensions, windows: Windows::default() }
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

    /// Removes the rows that have an error.
    fn without(&self, chunk: &Chunk, lost: Vec<Option<Error>>) -> Result<Chunk> {
        let kept = chunk.filter(&lost.iter().map(|error| Some(error.is_none())).collect())?;
        let loss = |(row, error): (&RowId, Option<Error>)| {
            let error = error?.with("sample", self.pool.index.describe_sample(row.sample));
            Some(Loss { row: *row, error, record: None })
        };
        Ok(kept.with_losses(chunk.ids().iter().zip(lost).filter_map(loss).collect()))
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
        let samples = Samples::new(forward, 0);
        Ok(Box::new(Stream { reader: self, samples, block, epoch, rows: rows.max(1), row: 0, over: false }))
    }

    fn window(&self, window: &LaneWindow, rows: usize, first_chunk: u64) -> Result<Chunks<'_>> {
        self.windows.stream(self, window, rows, first_chunk)
    }

    fn announce_window(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        Some(self.windows.announce(window))
    }
}

/// Returns the payload of a member.
fn payload(forward: &mut Forward, span: Span) -> Result<&[u8]> {
    let object = forward.object();
    let bytes = forward.at(span.offset, span.len as usize)?;
    if bytes.len() as u64 != span.len {
        return Err(fail::truncated(object.uri(), "the archive ends within a member").with("offset", span.offset));
    }
    Ok(bytes)
}

/// Columns that samples are added to one by one.
struct Columns<'a> {
    reader: &'a Tar,
    keys: Binary,
    members: Vec<Binary>,
    there: Vec<NullBufferBuilder>,
    /// For each sample, the error because of which it is not a row.
    lost: Vec<Option<Error>>,
}

impl<'a> Columns<'a> {
    fn new(reader: &'a Tar, rows: usize) -> Self {
        let members = reader.extensions.iter().map(|_| Binary::new()).collect();
        let there = reader.extensions.iter().map(|_| NullBufferBuilder::new(rows)).collect();
        Self { reader, keys: Binary::new(), members, there, lost: Vec::new() }
    }

    /// Ends a sample whose present members (`there`) were added; its headers begin at `header` of a file.
    fn end_sample(&mut self, key: &str, there: impl Iterator<Item = bool>, file: u64, header: u64) {
        let mut lack = None;
        for (place, is_there) in there.enumerate() {
            let is_required = !self.reader.is_optional(place);
            self.there[place].append(is_there || is_required);
            if !is_there {
                self.members[place].push(&[]);
                lack = lack.or(is_required.then_some(place));
            }
        }
        let error =
            |place: usize| lacks(self.reader.uri(file), key, &self.reader.extensions[place]).with("offset", header);
        self.lost.push(lack.map(error));
        self.keys.push(key.as_bytes());
    }

    fn finish(self, ids: Arc<[RowId]>) -> Result<Chunk> {
        let mut arrays = vec![self.keys.finish(&Kind::Utf8, None)?];
        for (column, mut there) in self.members.into_iter().zip(self.there) {
            arrays.push(column.finish(&Kind::Bytes, there.finish())?);
        }
        let chunk = Chunk::new(self.reader.schema.clone(), arrays, ids)?;
        if self.lost.iter().all(Option::is_none) { Ok(chunk) } else { self.reader.without(&chunk, self.lost) }
    }
}

/// Reads a shard from its start without an index.
struct Stream<'a> {
    reader: &'a Tar,
    samples: Samples,
    block: u64,
    epoch: Epoch,
    rows: usize,
    row: u64,
    over: bool,
}

impl Stream<'_> {
    fn chunk(&mut self) -> Result<Option<Chunk>> {
        let mut columns = Columns::new(self.reader, self.rows);
        while columns.lost.len() < self.rows {
            let sample = self.samples.next(&self.reader.extensions, |forward, place, span| {
                columns.members[place].push(payload(forward, span)?);
                Ok(())
            })?;
            let Some(sample) = sample else { break };
            columns.end_sample(&sample.key, sample.spans.iter().map(Option::is_some), self.block, sample.header);
        }
        let rows = columns.lost.len();
        self.over = rows < self.rows;
        if rows == 0 {
            return Ok(None);
        }
        let ids = block_ids(self.block, self.row, rows, self.epoch);
        self.row += rows as u64;
        columns.finish(ids).map(Some)
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

/// The samples of a window.
pub(super) struct WindowSamples {
    /// Their members' payloads.
    bytes: Vec<u8>,
    keys: Vec<String>,
    /// For each sample and each extension, the place of its payload in the bytes.
    members: Vec<Option<std::ops::Range<usize>>>,
    samples: Vec<SampleId>,
}

impl Sequential for Tar {
    type Cursor = Samples;
    type Rows = WindowSamples;

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn codec_of(&self) -> CodecOf {
        compressed::codec
    }

    fn bytes_before(&self) -> u64 {
        0
    }

    fn begin(&self, forward: Forward, offset: u64) -> Result<Samples> {
        Ok(Samples::from_middle(forward, offset))
    }

    fn forward<'c>(&self, cursor: &'c mut Samples) -> &'c mut Forward {
        &mut cursor.walk.forward
    }

    fn position(&self, cursor: &Samples) -> u64 {
        let forward = &cursor.walk.forward;
        cursor.position().map_or_else(|| end_position(forward), |at| position(forward, at))
    }

    fn read(&self, file: usize, cursor: &mut Samples, end: u64, mut rows: Option<&mut WindowSamples>) -> Result<()> {
        let end = content_offset(&cursor.walk.forward, end);
        while cursor.has_before(end)? {
            let Some(rows) = &mut rows else {
                cursor.next(&self.extensions, |_, _, _| Ok(()))?;
                continue;
            };
            let first = rows.members.len();
            rows.members.resize(first + self.extensions.len(), None);
            let sample = cursor.next(&self.extensions, |forward, place, span| {
                let begin = rows.bytes.len();
                rows.bytes.extend_from_slice(payload(forward, span)?);
                rows.members[first + place] = Some(begin..rows.bytes.len());
                Ok(())
            })?;
            if let Some(sample) = sample {
                rows.samples.push(sample_at(file, sample.header)?);
                rows.keys.push(sample.key);
            }
        }
        Ok(())
    }

    fn rows(&self, bytes: usize) -> WindowSamples {
        WindowSamples { bytes: Vec::with_capacity(bytes), keys: Vec::new(), members: Vec::new(), samples: Vec::new() }
    }

    fn len(rows: &WindowSamples) -> usize {
        rows.samples.len()
    }

    fn chunk(&self, rows: &WindowSamples, places: &[u64], epoch: Epoch) -> Result<Chunk> {
        let width = self.extensions.len();
        let mut columns = Columns::new(self, places.len());
        for (place, column) in columns.members.iter_mut().enumerate() {
            let member = |row: &u64| rows.members[*row as usize * width + place].as_ref();
            column.reserve(places.iter().filter_map(member).map(std::ops::Range::len).sum());
        }
        for row in places.iter().map(|&place| place as usize) {
            let members = &rows.members[row * width..(row + 1) * width];
            for (column, member) in columns.members.iter_mut().zip(members) {
                member.iter().for_each(|member| column.push(&rows.bytes[member.clone()]));
            }
            let sample = rows.samples[row];
            let header = offset_of(sample).unwrap_or(0);
            columns.end_sample(&rows.keys[row], members.iter().map(Option::is_some), sample.block(), header);
        }
        columns.finish(places.iter().map(|&place| RowId { sample: rows.samples[place as usize], epoch }).collect())
    }
}
