//! `Text`, `Jsonl`, `Json`, `Csv` and `Tfrecord`: files of consecutive frames.
//!
//! A run of frames is read into one buffer and then decoded, whether its rows were gathered or streamed. `format` has
//! the formats of frames, `run` holds frames in memory, `walk` finds them one after another, `window` reads the frames
//! of a lane.

mod format;
mod run;
mod walk;
mod window;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use forebay_core::{Epoch, Error, Fault, Result, SampleId};
use forebay_data::{Chunk, Kind, Loss, RowId, Schema};
use forebay_plan::LaneWindow;

use super::bytes::piece::Piece;
use super::bytes::pieces::{self, Layout};
use super::bytes::pool::Pool;
use super::reader::{Chunks, Place, Reader, WindowAnnouncement, block_ids, check, ids, stream_counted};
use super::windows::{Windows, offset_of};
use crate::columns::binary;
use crate::formats::{csv, example, json, lines, tfrecord};
use crate::index::table::Table;
use crate::store::Forward;
pub(crate) use format::{CsvFormat, Format};
use run::Run;
use walk::Walk;

pub(crate) struct Frames {
    schema: Arc<Schema>,
    pool: Pool,
    format: Format,
    windows: Windows<Self>,
    /// The files whose header was compared with the first file's.
    headers: Mutex<HashSet<String>>,
}

impl Frames {
    pub(crate) fn new(schema: Arc<Schema>, pool: Pool, format: Format) -> Self {
        Self { schema, pool, format, windows: Windows::default(), headers: Mutex::default() }
    }

    /// Compares the header of a file that is read from its middle with the names, once per file.
    fn check_header(&self, forward: &Forward) -> Result<()> {
        if !matches!(&self.format, Format::Csv(csv) if csv.has_header) {
            return Ok(());
        }
        let uri = forward.object().uri().to_owned();
        let headers = || self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        if !headers().contains(&uri) {
            self.format.first(&mut Forward::skipping(forward.object()).unpacked(self.format.codec_of())?)?;
            headers().insert(uri);
        }
        Ok(())
    }

    /// Returns where a row's frame begins and ends, by the index.
    fn span(&self, sample: SampleId) -> Result<(usize, u64, u64)> {
        let file = sample.block() as usize;
        let Some(Table::Frames(starts)) = self.pool.index.inner().tables.get(file).map(|t| &**t) else {
            return Err(Error::internal("the index has no lines or records"));
        };
        let size = self.pool.index.inner().size_of(file);
        match starts.get(sample.row() as usize..) {
            Some([start, end, ..]) if start <= end && *end <= size => Ok((file, *start, *end)),
            _ => Err(Error::internal(format!("the index has no row {sample}"))),
        }
    }

    /// Reads the frames of `rows` into one buffer.
    fn fetch(&self, rows: &[RowId]) -> Result<Run> {
        let bare = matches!(self.format, Format::Record { verify: false });
        let mut layout = Layout::new(rows.len());
        let mut wanted = Vec::with_capacity(rows.len());
        for row in rows {
            let (file, mut offset, mut end) = self.span(row.sample)?;
            if bare {
                (offset, end) = (offset + tfrecord::HEADER as u64, end.saturating_sub(tfrecord::FOOTER as u64));
            }
            let len = end.saturating_sub(offset) as usize;
            wanted.push(Piece { file, offset, len, buffer: 0, at: layout.push(len) });
        }
        let mut buffers = [layout.buffer()?];
        pieces::read(&self.pool, wanted, &mut buffers)?;
        let [bytes] = buffers;
        Ok(Run { bytes, bounds: layout.offsets, bare })
    }

    /// Makes columns of a run; `offset` returns the offset of a row. A run that cannot be decoded stays unchanged.
    fn decode(&self, run: &mut Run, ids: Arc<[RowId]>, offset: &dyn Fn(usize) -> u64) -> Result<Chunk> {
        let columns = match &self.format {
            Format::Text => vec![self.text(run, &ids, offset)?],
            Format::Record { .. } if run.bare => {
                vec![binary(&Kind::Bytes, std::mem::take(&mut run.bounds), std::mem::take(&mut run.bytes), None)?]
            }
            Format::Record { verify } => {
                self.each(run, &ids, offset, |frame, uri, at, row| {
                    tfrecord::payload(frame, uri, at, row, *verify).map(drop)
                })?;
                let ends = run.shrink(|frame| tfrecord::HEADER..frame.len() - tfrecord::FOOTER);
                vec![binary(&Kind::Bytes, ends, std::mem::take(&mut run.bytes), None)?]
            }
            Format::Example { verify, features } => {
                let mut parser = example::Parser::new(features, run.rows())?;
                self.each(run, &ids, offset, |frame, uri, at, row| {
                    parser.push(tfrecord::payload(frame, uri, at, row, *verify)?)
                })?;
                parser.finish()?
            }
            Format::Jsonl { fields } => {
                let mut parser = json::Parser::new(json::LINE, fields, run.rows());
                self.each(run, &ids, offset, |frame, _, _, _| parser.push(lines::trim(frame)))?;
                parser.finish()?
            }
            Format::Json { fields, .. } => {
                let mut parser = json::Parser::new(json::ITEM, fields, run.rows());
                self.each(run, &ids, offset, |frame, _, _, _| parser.push(json::document::trim(frame)))?;
                parser.finish()?
            }
            Format::Csv(csv) => {
                let how = (run.rows(), std::str::from_utf8(&run.bytes).is_ok());
                let mut parser = csv::Parser::new(&csv.dialect, &csv.null, &csv.places, &csv.fields, how);
                self.each(run, &ids, offset, |frame, _, _, _| parser.push(frame))?;
                parser.finish()?
            }
        };
        Chunk::new(self.schema.clone(), columns, ids)
    }

    /// Calls `one` with each frame, and adds the frame's file, offset and row in the file to its error.
    fn each(
        &self,
        run: &Run,
        ids: &[RowId],
        offset: &dyn Fn(usize) -> u64,
        mut one: impl FnMut(&[u8], &str, u64, Option<u64>) -> Result<()>,
    ) -> Result<()> {
        for (i, id) in ids.iter().enumerate() {
            let uri = self.uri(id.sample);
            let number = offset_of(id.sample).is_none().then(|| id.sample.row());
            one(run.frame(i), uri, offset(i), number).map_err(|e| self.blame(e, id.sample, offset(i)))?;
        }
        Ok(())
    }

    fn uri(&self, sample: SampleId) -> &str {
        self.pool.index.inner().uris.get(sample.block() as usize).map_or("", |u| u)
    }

    /// Adds the place of an unreadable row to an error: lines count from 1, as in editors, and records from 0.
    fn blame(&self, error: Error, sample: SampleId, offset: u64) -> Error {
        let error = error.with("file", self.uri(sample)).with("offset", offset);
        let error = match self.format {
            _ if offset_of(sample).is_some() => error,
            Format::Text | Format::Jsonl { .. } => error.with("file_line", sample.row() + 1),
            Format::Csv(ref csv) if !csv.dialect.multiline => {
                error.with("file_line", sample.row() + 1 + u64::from(csv.has_header))
            }
            _ => error.with("record", sample.row()),
        };
        error.with("sample", self.pool.index.describe_sample(sample))
    }

    /// Removes the line ends of a run in place, which makes it the column's buffer.
    fn text(&self, run: &mut Run, ids: &[RowId], offset: &dyn Fn(usize) -> u64) -> Result<ArrayRef> {
        // Line ends are complete characters, so lines are valid UTF-8 with them exactly when without.
        let whole = std::str::from_utf8(&run.bytes);
        let good = |w: &str| run.bounds.iter().all(|&e| w.is_char_boundary(e as usize));
        if !whole.is_ok_and(good) {
            let bad = (0..ids.len()).find(|&i| std::str::from_utf8(run.frame(i)).is_err()).unwrap_or(0);
            let error =
                Error::data("a line is not utf-8").hint("convert the file to utf-8, or read it with from_files");
            return Err(self.blame(error, ids[bad].sample, offset(bad)));
        }
        let ends = run.shrink(|frame| 0..lines::trim(frame).len());
        binary(&Kind::Utf8, ends, std::mem::take(&mut run.bytes), None)
    }

    /// Makes columns of a run whose rows were found without an index: the chunk lists the rows that cannot be decoded.
    fn decode_streamed(&self, run: &mut Run, ids: Arc<[RowId]>, starts: &[u64]) -> Result<Chunk> {
        match self.decode(run, ids.clone(), &|i| starts[i]) {
            // The place of the next row does not depend on the content of this one.
            Err(error) if error.fault() == Fault::Sample => self.decode_good(run, &ids, starts),
            decoded => decoded,
        }
    }

    /// Makes columns of the rows of a run that can be decoded; the chunk lists the others.
    fn decode_good(&self, run: &Run, ids: &[RowId], starts: &[u64]) -> Result<Chunk> {
        let mut good = Run { bytes: Vec::new(), bounds: vec![0], bare: run.bare };
        let (mut kept, mut offsets, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        for (i, id) in ids.iter().enumerate() {
            let frame = run.frame(i);
            let mut one = Run { bytes: frame.to_vec(), bounds: vec![0, frame.len() as i64], bare: run.bare };
            match self.decode(&mut one, [*id].into(), &|_| starts[i]) {
                Ok(_) => {
                    good.bytes.extend_from_slice(frame);
                    good.bounds.push(good.bytes.len() as i64);
                    kept.push(*id);
                    offsets.push(starts[i]);
                }
                Err(error) if error.fault() == Fault::Sample => losses.push(Loss { row: *id, error, record: None }),
                Err(error) => return Err(error),
            }
        }
        Ok(self.decode(&mut good, kept.into(), &|i| offsets[i])?.with_losses(losses))
    }
}

impl Reader for Frames {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.pool.index, places)?;
        let ids = ids(&self.pool.index, places);
        let mut run = self.fetch(&ids)?;
        let offset = |i: usize| self.span(ids[i].sample).map_or(0, |(_, start, _)| start);
        self.decode(&mut run, ids.clone(), &offset)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        if self.pool.index.rows().is_some() {
            return stream_counted(self, &self.pool.index, block, epoch, rows);
        }
        let mut forward = self.pool.forward(block as usize, self.format.codec_of())?;
        let at = self.format.first(&mut forward)?;
        let walk = Walk::begin(forward, at);
        Ok(Box::new(Stream { reader: self, walk, block, epoch, rows: rows.max(1), row: 0, over: false }))
    }

    fn window(&self, window: &LaneWindow, rows: usize, first_chunk: u64) -> Result<Chunks<'_>> {
        self.windows.stream(self, window, rows, first_chunk)
    }

    fn announce_window(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        Some(self.windows.announce(window))
    }
}

/// Reads a file from its start without an index.
struct Stream<'a> {
    reader: &'a Frames,
    walk: Walk,
    block: u64,
    epoch: Epoch,
    rows: usize,
    row: u64,
    over: bool,
}

impl Stream<'_> {
    fn chunk(&mut self) -> Result<Option<Chunk>> {
        let mut run = Run { bytes: Vec::new(), bounds: vec![0], bare: false };
        let mut starts = Vec::new();
        while starts.len() < self.rows {
            let row = self.row + starts.len() as u64;
            let Some((at, frame)) = self.walk.next(&self.reader.format, Some(row))? else { break };
            run.bytes.extend_from_slice(frame);
            run.bounds.push(run.bytes.len() as i64);
            starts.push(at);
        }
        self.over = starts.len() < self.rows;
        if starts.is_empty() {
            return Ok(None);
        }
        let ids = block_ids(self.block, self.row, starts.len(), self.epoch);
        self.row += starts.len() as u64;
        self.reader.decode_streamed(&mut run, ids, &starts).map(Some)
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
