//! `Text`, `Jsonl` and `Tfrecord`: files of frames that follow each other.
//!
//! A run of frames is read into one buffer and then decoded, whether its rows were gathered or streamed.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::{Epoch, Error, Fault, Result, SampleId};
use forebay_data::{Chunk, Field, Kind, Loss, RowId, Schema};
use forebay_plan::LaneWindow;

use super::pieces::{self, Layout, Piece};
use super::pool::Pool;
use super::windows::{Sequential, Windows, offset_of, position, sample_at};
use super::{Chunks, Place, Reader, WindowAnnouncement, block_ids, check, ids, stream_counted};
use crate::columns::binary;
use crate::fail;
use crate::formats::{compressed, csv, example, json, lines, tfrecord};
use crate::index::table::Table;
use crate::store::{CodecOf, Forward};

/// What a frame is.
#[derive(Debug)]
pub(crate) enum Format {
    Text,
    /// With the fields as the source has them: of a list that may be missing the schema says only that it is one.
    Jsonl {
        fields: Vec<Field>,
    },
    Csv(Box<CsvFormat>),
    Record {
        verify: bool,
    },
    /// With the features as the source has them, too.
    Example {
        verify: bool,
        features: Vec<Field>,
    },
}

/// How records of CSV are read.
#[derive(Debug)]
pub(crate) struct CsvFormat {
    pub(crate) dialect: csv::Dialect,
    /// The fields that mean a missing value.
    pub(crate) null: Vec<String>,
    /// Whether files begin with the names.
    pub(crate) has_header: bool,
    /// The names of all fields of a record, and the columns that are read.
    pub(crate) names: Vec<String>,
    pub(crate) fields: Vec<Field>,
}

impl Format {
    /// Says whether a row is a line, or more lines.
    fn has_lines(&self) -> bool {
        matches!(self, Format::Text | Format::Jsonl { .. } | Format::Csv(_))
    }

    /// Returns where the first row of a file begins.
    fn first(&self, forward: &mut Forward) -> Result<u64> {
        match self {
            Format::Text | Format::Jsonl { .. } => lines::begin(forward),
            Format::Csv(csv) => csv.dialect.begin(forward, csv.has_header.then_some(&csv.names)),
            Format::Record { .. } | Format::Example { .. } => Ok(0),
        }
    }

    /// Returns what tells how a file of it is compressed.
    fn codec_of(&self) -> CodecOf {
        match self {
            Format::Text | Format::Jsonl { .. } | Format::Csv(_) => compressed::codec,
            Format::Record { .. } | Format::Example { .. } => tfrecord::codec,
        }
    }
}

pub(crate) struct Frames {
    schema: Arc<Schema>,
    pool: Pool,
    format: Format,
    windows: Windows<Self>,
}

/// Frames one after another in memory.
struct Run {
    bytes: Vec<u8>,
    /// Where each begins, and the end.
    bounds: Vec<i64>,
    /// Whether they are payloads without their framing.
    bare: bool,
}

impl Run {
    fn frame(&self, row: usize) -> &[u8] {
        &self.bytes[self.bounds[row] as usize..self.bounds[row + 1] as usize]
    }

    fn rows(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Keeps the given part of each frame, in place, and returns the new bounds.
    fn shrink(&mut self, part: impl Fn(&[u8]) -> std::ops::Range<usize>) -> Vec<i64> {
        let mut ends = Vec::with_capacity(self.bounds.len());
        ends.push(0);
        let mut end = 0;
        for row in 0..self.rows() {
            let from = self.bounds[row] as usize;
            let part = part(self.frame(row));
            self.bytes.copy_within(from + part.start..from + part.end, end);
            end += part.len();
            ends.push(end as i64);
        }
        self.bytes.truncate(end);
        ends
    }
}

impl Frames {
    pub(crate) fn new(schema: Arc<Schema>, pool: Pool, format: Format) -> Self {
        Self { schema, pool, format, windows: Windows::default() }
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

    /// Makes columns of a run; `offset` says where a row of it was. A run that cannot be decoded is left as it was.
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
                let mut parser = json::Parser::new(fields, run.rows());
                self.each(run, &ids, offset, |frame, _, _, _| parser.push(lines::trim(frame)))?;
                parser.finish()?
            }
            Format::Csv(csv) => {
                let mut parser = csv::Parser::new(&csv.dialect, &csv.null, &csv.names, &csv.fields, run.rows())?;
                self.each(run, &ids, offset, |frame, _, _, _| parser.push(frame))?;
                parser.finish()?
            }
        };
        Chunk::new(self.schema.clone(), columns, ids)
    }

    /// Calls `one` with each frame, its file, offset and row in the file, and adds these to its error.
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

    /// Says where a row is that cannot be read: lines count from 1, as editors do, and records from 0.
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

    /// Takes the line ends out of a run in place, which makes it the column's buffer.
    fn text(&self, run: &mut Run, ids: &[RowId], offset: &dyn Fn(usize) -> u64) -> Result<ArrayRef> {
        // Line ends are letters of their own, so lines are as good with them as without.
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

    /// Makes columns of a run, whose rows were found without their content: the chunk says which of them cannot be decoded.
    fn decode_streamed(&self, run: &mut Run, ids: Arc<[RowId]>, starts: &[u64]) -> Result<Chunk> {
        match self.decode(run, ids.clone(), &|i| starts[i]) {
            // The next row begins where it does whatever this one holds.
            Err(error) if error.fault() == Fault::Sample => self.decode_good(run, &ids, starts),
            decoded => decoded,
        }
    }

    /// Makes columns of those rows of a run that can be decoded; the chunk says which cannot.
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
        let walk = Walk { forward, at, solid: at, is_over: false, is_found: true };
        Ok(Box::new(Stream { reader: self, walk, block, epoch, rows: rows.max(1), row: 0, over: false }))
    }

    fn window(&self, window: &LaneWindow, rows: usize) -> Result<Chunks<'_>> {
        self.windows.stream(self, window, rows)
    }

    fn announce_window(&self, window: &LaneWindow) -> Option<WindowAnnouncement> {
        Some(self.windows.announce(window))
    }
}

/// A place in a file where a frame begins.
pub(super) struct Walk {
    forward: Forward,
    at: u64,
    /// Blank lines before this offset are rows, for there are others behind them.
    solid: u64,
    /// Whether no row is left.
    is_over: bool,
    /// Whether a frame is known to begin here: not where the walk began in the middle of a file and did not come to one.
    is_found: bool,
}

impl Walk {
    /// Returns the frame that is next, and where it begins; `None` behind the last row. `row` is its number, if that is known.
    fn next(&mut self, format: &Format, row: Option<u64>) -> Result<Option<(u64, &[u8])>> {
        let len = match format {
            Format::Text => lines::next(&mut self.forward, self.at, row)?,
            Format::Jsonl { .. } => {
                let len = lines::next(&mut self.forward, self.at, row)?;
                self.unless_blank(len, row)?
            }
            Format::Csv(csv) => {
                let len = csv.dialect.next(&mut self.forward, self.at, row)?;
                self.unless_blank(len, row)?
            }
            Format::Record { verify } | Format::Example { verify, .. } => {
                tfrecord::next(&mut self.forward, self.at, row, *verify)?
            }
        };
        let at = self.at;
        let Some(len) = len else {
            self.is_over = true;
            return Ok(None);
        };
        let uri = self.forward.object();
        let bytes = self.forward.at(at, len as usize)?;
        if bytes.len() as u64 != len {
            return Err(fail::truncated(uri.uri(), "the file ends within a row").with("offset", at));
        }
        self.at += len;
        Ok(Some((at, bytes)))
    }

    /// Returns the length of the row that is next, unless only blank lines are left.
    fn unless_blank(&mut self, len: Option<u64>, row: Option<u64>) -> Result<Option<u64>> {
        if let Some(len) = len
            && self.at >= self.solid
            && lines::is_blank(self.forward.at(self.at, len as usize)?)
        {
            match lines::skip_blank(&mut self.forward, self.at, row)? {
                Some(next) => self.solid = next,
                None => return Ok(None),
            }
        }
        Ok(len)
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

/// The frames of a window, one after another.
pub(super) struct WindowFrames {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    samples: Vec<SampleId>,
}

impl WindowFrames {
    fn frame(&self, row: usize) -> &[u8] {
        &self.bytes[row.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[row]]
    }
}

impl Sequential for Frames {
    type Cursor = Walk;
    type Rows = WindowFrames;

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn codec_of(&self) -> CodecOf {
        self.format.codec_of()
    }

    /// The byte before may be the end of a line.
    fn bytes_before(&self) -> u64 {
        u64::from(self.format.has_lines())
    }

    fn begin(&self, mut forward: Forward, offset: u64) -> Result<Walk> {
        let has_lines = self.format.has_lines();
        let at = match () {
            () if offset == 0 => self.format.first(&mut forward)?,
            // A header is the first line: the first row behind an offset within it is the first row.
            () if has_lines => lines::find(&mut forward, offset)?,
            () => offset,
        };
        Ok(Walk { forward, at, solid: 0, is_over: false, is_found: has_lines || offset == 0 })
    }

    fn forward<'c>(&self, cursor: &'c mut Walk) -> &'c mut Forward {
        &mut cursor.forward
    }

    fn position(&self, cursor: &Walk) -> u64 {
        if cursor.is_over { cursor.forward.object().size() } else { position(&cursor.forward, cursor.at) }
    }

    fn read(&self, file: usize, cursor: &mut Walk, end: u64, mut rows: Option<&mut WindowFrames>) -> Result<()> {
        if !cursor.is_found {
            let found = tfrecord::find(&mut cursor.forward, cursor.at, end)?;
            (cursor.at, cursor.is_found) = (found.unwrap_or(end.max(cursor.at)), found.is_some());
        }
        let begin = self.position(cursor);
        while self.position(cursor) < end {
            let Some((at, frame)) = cursor.next(&self.format, None)? else { break };
            if let Some(rows) = &mut rows {
                rows.bytes.extend_from_slice(frame);
                rows.ends.push(rows.bytes.len());
                rows.samples.push(sample_at(file, at)?);
            }
        }
        match &self.format {
            // A reader that begins at `end` has to come to the same record.
            Format::Record { verify } | Format::Example { verify, .. }
                if begin < end && !cursor.forward.is_decoded() =>
            {
                tfrecord::check_find(&mut cursor.forward, end, cursor.at, *verify)
            }
            _ => Ok(()),
        }
    }

    fn rows(&self, bytes: usize) -> WindowFrames {
        WindowFrames { bytes: Vec::with_capacity(bytes), ends: Vec::new(), samples: Vec::new() }
    }

    fn len(rows: &WindowFrames) -> usize {
        rows.samples.len()
    }

    fn chunk(&self, rows: &WindowFrames, places: &[u64], epoch: Epoch) -> Result<Chunk> {
        let bytes = places.iter().map(|&place| rows.frame(place as usize).len()).sum();
        let mut run = Run { bytes: Vec::with_capacity(bytes), bounds: vec![0], bare: false };
        for &place in places {
            run.bytes.extend_from_slice(rows.frame(place as usize));
            run.bounds.push(run.bytes.len() as i64);
        }
        let samples = || places.iter().map(|&place| rows.samples[place as usize]);
        let starts: Vec<u64> = samples().map(|sample| offset_of(sample).unwrap_or(0)).collect();
        self.decode_streamed(&mut run, samples().map(|sample| RowId { sample, epoch }).collect(), &starts)
    }
}
