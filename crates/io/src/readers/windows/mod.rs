//! Reads windows of a shuffle whose rows are not counted: pieces of several files in parallel, each from front to back.
//!
//! A piece is a range of a file's stored bytes, and its rows are those whose position is in it. A reader finds the
//! first of them from any byte of the file. So any process can read any window; earlier reads only change its cost.
//! Each group of lanes keeps a cursor in each of its files, and windows of a group are consecutive, so one process
//! reads each byte of a file once.
//!
//! A compressed file is read from its start. If its name shows the codec, the position of a row is its offset in the
//! content, and pieces divide the estimated content ([`SourceIndex::window_sizes`]). Otherwise the position is a quarter of
//! that offset, and pieces divide the stored bytes. The last piece of a file has all remaining rows. Bounds:
//! [`GROUPS_MAX`] groups keep cursors, and [`Windows::until`] bounds the bytes that are requested ahead.
//!
//! [`SourceIndex::window_sizes`]: crate::SourceIndex::window_sizes

mod runs;
mod turns;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::Chunk;
use forebay_plan::{EpochLanes, LaneWindow, Piece};

use super::bytes::pool::{Head, Pool};
use super::reader::Chunks;
use super::reader::WindowAnnouncement;
use crate::parallel::for_each;
use crate::store::{CodecOf, Forward};
use turns::{Cursors, Group, Open, lock};

/// Groups of lanes, over all epochs in use, whose cursors are kept.
const GROUPS_MAX: usize = 8;
/// The bytes that wait for the reader of a lane.
const AHEAD: std::ops::Range<u64> = 256 << 10..8 << 20;
/// The initial estimate of how far readers go beyond the end of a piece.
const OVERRUN: u64 = 256 << 10;
/// The bytes that are requested beyond the end of a piece.
const SLACK: std::ops::Range<u64> = 16 << 10..4 << 20;

/// Bit of a row's number in its sample id: if set, the other bits are the row's offset in its file.
const BY_OFFSET: u64 = SampleId::ROWS_MAX >> 1;

/// Returns the id of the row that begins at `offset` of a file.
///
/// # Errors
/// Invalid where the offset is too large for an id.
pub(super) fn sample_at(file: usize, offset: u64) -> Result<SampleId> {
    if offset >= BY_OFFSET {
        return Err(Error::invalid("rows beyond 512 GiB of a file cannot be named in a shuffle over windows")
            .with("offset", offset)
            .hint("write smaller files"));
    }
    Ok(SampleId::new(file as u64, BY_OFFSET | offset))
}

/// Returns the offset of a row in its file, if its id has it.
pub(crate) fn offset_of(sample: SampleId) -> Option<u64> {
    (sample.row() & BY_OFFSET != 0).then_some(sample.row() & !BY_OFFSET)
}

/// Assumed content bytes for each stored byte of a compressed file whose name does not show that it is one.
const DENSITY: u64 = 4;

/// Returns the bytes of content between two positions of a compressed file, and the position after the last row.
fn scale(forward: &Forward) -> (u64, u64) {
    match forward.estimate() {
        Some(estimate) => (1, estimate),
        None => (DENSITY, forward.object().size()),
    }
}

/// Returns the position of a row by its offset in `forward`.
pub(super) fn position(forward: &Forward, offset: u64) -> u64 {
    if !forward.is_decoded() {
        return offset;
    }
    let (unit, end) = scale(forward);
    (offset / unit).min(end.saturating_sub(1))
}

/// Returns the position after the last row.
pub(super) fn end_position(forward: &Forward) -> u64 {
    if forward.is_decoded() { scale(forward).1 } else { forward.object().size() }
}

/// Returns the offset in `forward` of the first row that may have this position.
pub(super) fn content_offset(forward: &Forward, position: u64) -> u64 {
    if !forward.is_decoded() {
        return position;
    }
    let (unit, end) = scale(forward);
    if position >= end { u64::MAX } else { position.saturating_mul(unit) }
}

/// A format whose rows are consecutive in a file.
pub(super) trait Sequential: Send + Sync {
    /// A place in an open file.
    type Cursor: Send;
    /// Rows in memory.
    type Rows: Send + Sync;

    /// Returns the files.
    fn pool(&self) -> &Pool;

    /// Returns the function that detects the codec of a file by its first bytes.
    fn codec_of(&self) -> CodecOf;

    /// Returns how many bytes before a piece a reader needs to find the first row.
    fn bytes_before(&self) -> u64;

    /// Begins at the first row with a position of at least `offset`.
    fn begin(&self, forward: Forward, offset: u64) -> Result<Self::Cursor>;

    /// Returns the cursor's reader.
    fn forward<'c>(&self, cursor: &'c mut Self::Cursor) -> &'c mut Forward;

    /// Returns the position of the cursor's row, or a lower bound of it; after the last row, [`end_position`].
    fn position(&self, cursor: &Self::Cursor) -> u64;

    /// Moves the cursor to the first row with a position of at least `end`, and adds the rows that it passes to `rows`,
    /// if that is given.
    ///
    /// # Errors
    /// Data when a reader that begins at `end` would find another row; any error of reading.
    fn read(&self, file: usize, cursor: &mut Self::Cursor, end: u64, rows: Option<&mut Self::Rows>) -> Result<()>;

    /// Moves the cursor forward to the first row with a position of at least `start`.
    ///
    /// # Errors
    /// The errors of [`Sequential::read`]. A format that finds `start` without reading the passed rows does not check them.
    fn skip_to(&self, file: usize, cursor: &mut Self::Cursor, start: u64) -> Result<()> {
        self.read(file, cursor, start, None)
    }

    /// Makes room for rows that take about `bytes` bytes.
    fn rows(&self, bytes: usize) -> Self::Rows;

    /// Returns the number of rows.
    fn len(rows: &Self::Rows) -> usize;

    /// Makes a chunk of the rows at `places`.
    fn chunk(&self, rows: &Self::Rows, places: &[u64], epoch: Epoch) -> Result<Chunk>;
}

/// A file that a lane will read: its bytes are requested.
struct OpenRequest {
    forward: Forward,
    head: Head,
}

/// The state of a lane when a piece is to be read.
enum LaneFile<C> {
    Cursor(C),
    Request(Box<OpenRequest>),
}

/// The key of a group of lanes of an epoch.
type GroupKey = (u64, u64);
/// The most recently read groups, the latest last.
type Recent<F> = VecDeque<(GroupKey, Arc<Group<F>>)>;

/// Reads windows of one source.
pub(super) struct Windows<F: Sequential> {
    groups: Mutex<Recent<F>>,
    /// How far most readers go beyond the end of a piece.
    overrun: AtomicU64,
    /// Whether other processes read windows of the groups that this one reads.
    is_shared: AtomicBool,
    /// A thread holds it while it decompresses the files of a window up to the window's pieces, on all cores. A thread
    /// for a later window waits, because it would delay the first batch of a resumed run.
    beginning: Mutex<()>,
}

impl<F: Sequential> Default for Windows<F> {
    fn default() -> Self {
        Self {
            groups: Mutex::default(),
            overrun: AtomicU64::new(OVERRUN),
            is_shared: AtomicBool::new(false),
            beginning: Mutex::default(),
        }
    }
}

impl<F: Sequential + 'static> Windows<F> {
    /// See [`super::Reader::announce_window`].
    pub(super) fn announce(&self, window: &LaneWindow) -> WindowAnnouncement {
        let (group, index) = window.lanes.place(window.number);
        WindowAnnouncement::new(self.group((window.lanes.key(), group)).announce(index))
    }

    /// Reads a window, and returns its rows in chunks of `rows`, in the window's order, from chunk `first_chunk` on.
    pub(super) fn stream<'a>(
        &self,
        format: &'a F,
        window: &LaneWindow,
        rows: usize,
        first_chunk: u64,
    ) -> Result<Chunks<'a>> {
        let (lanes, number, epoch) = (&window.lanes, window.number, window.epoch);
        let (group, index) = lanes.place(number);
        let of = self.group((lanes.key(), group));
        let mut taken = format.pool().wait_for_reader(|| of.take(index));
        let (following, runs) = (taken.following, &mut taken.cursors.runs);
        runs.begin(self.is_shared.load(Relaxed));
        let wanted = runs.windows_ahead(index, following).saturating_mul(lanes.share_bytes());
        self.is_shared.store(runs.is_shared(), Relaxed);
        let window = self.read(format, lanes, (group, index), wanted, &mut taken.cursors)?;
        drop(taken);
        let count = F::len(&window) as u64;
        let permutation = lanes.permutation(number, count);
        let step = rows.max(1) as u64;
        let chunks = first_chunk..count.div_ceil(step);
        Ok(Box::new(chunks.map(move |chunk| {
            let first = chunk * step;
            let mut places: Vec<u64> = (first..count.min(first + step)).collect();
            permutation.map(&mut places);
            format.chunk(&window, &places, epoch)
        })))
    }

    fn group(&self, key: GroupKey) -> Arc<Group<F>> {
        let mut groups = lock(&self.groups);
        let found = groups.iter().position(|(of, _)| *of == key).and_then(|at| groups.remove(at));
        let found = found.unwrap_or_else(|| (key, Arc::default()));
        groups.push_back(found.clone());
        if groups.len() > GROUPS_MAX {
            groups.pop_front();
        }
        found.1
    }

    /// Reads a window with the cursors of its group, which are at its pieces, or are moved there.
    /// `wanted` bytes behind each piece are requested, too.
    fn read(
        &self,
        format: &F,
        lanes: &EpochLanes,
        (group, index): (u64, u64),
        wanted: u64,
        of: &mut Cursors<F>,
    ) -> Result<F::Rows> {
        let mut cursors = std::mem::take(of);
        let ahead = lanes.share_bytes().clamp(AHEAD.start, AHEAD.end) as usize;
        let pieces = lanes.pieces(group, index);
        // All bytes are requested before the thread waits for the first piece.
        let mut open = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let until = self.until(piece, wanted);
            let at_hand = cursors.by_lane.remove(&piece.lane).and_then(|open| Self::at(format, piece, open));
            open.push(match at_hand {
                Some(mut cursor) => {
                    format.forward(&mut cursor).ask_until(until)?;
                    LaneFile::Cursor(cursor)
                }
                None => LaneFile::Request(Self::ask(format, piece, until, ahead)?.into()),
            });
        }
        if !lanes.divides_files() {
            open = self.begin_in_parallel(format, &pieces, open, ahead)?;
        }
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes.end - piece.bytes.start).sum();
        let mut rows = format.rows((bytes + pieces.len() as u64 * self.overrun.load(Relaxed)) as usize);
        let mut asked = self.slack();
        let mut open: VecDeque<_> = pieces.iter().zip(open).collect();
        while let Some((piece, at)) = open.pop_front() {
            let cursor = match at {
                LaneFile::Cursor(cursor) => cursor,
                LaneFile::Request(request) => Self::begin(format, piece, *request, ahead)?,
            };
            let cursor = self.read_piece(format, piece, cursor, &mut rows)?;
            cursors.by_lane.insert(piece.lane, Open { file: piece.file, byte: piece.bytes.end, cursor });
            if self.slack() >= 2 * asked {
                // Rows are much larger than estimated: the missing bytes of the other pieces are requested at once, not
                // one by one.
                asked = self.slack();
                for (piece, at) in &mut open {
                    let forward = match at {
                        LaneFile::Cursor(cursor) => format.forward(cursor),
                        LaneFile::Request(request) => &mut request.forward,
                    };
                    forward.ask_until(self.until(piece, wanted))?;
                }
            }
        }
        *of = cursors;
        Ok(rows)
    }

    /// Returns the end of the request for a piece's file: `wanted` bytes behind the piece, within its block.
    fn until(&self, piece: &Piece, wanted: u64) -> u64 {
        piece.bytes.end.saturating_add(wanted).min(piece.block_end).saturating_add(self.slack())
    }

    /// Returns how many bytes are requested beyond the wanted end: most readers need less.
    fn slack(&self) -> u64 {
        self.overrun.load(Relaxed).clamp(SLACK.start, SLACK.end)
    }

    /// Returns the cursor of an open file that is at the beginning of a piece, or before it if the file is read from
    /// its start.
    fn at(format: &F, piece: &Piece, mut open: Open<F>) -> Option<F::Cursor> {
        // The cursor is at the first row with a position of at least `open.byte`.
        let is_before = format.forward(&mut open.cursor).is_decoded() && open.byte <= piece.bytes.start;
        (open.file == piece.file && (open.byte == piece.bytes.start || is_before)).then_some(open.cursor)
    }

    /// Moves the cursors of undivided files to their pieces. If several cursors do not exist yet, threads move them in
    /// parallel, because each of them decompresses its file from the start.
    fn begin_in_parallel(
        &self,
        format: &F,
        pieces: &[Piece],
        open: Vec<LaneFile<F::Cursor>>,
        ahead: usize,
    ) -> Result<Vec<LaneFile<F::Cursor>>> {
        let is_far = |(piece, at): (&Piece, &LaneFile<_>)| piece.bytes.start > 0 && matches!(at, LaneFile::Request(_));
        if pieces.iter().zip(&open).filter(|of| is_far(*of)).count() < 2 {
            return Ok(open);
        }
        let _turn = format.pool().wait_for_reader(|| lock(&self.beginning));
        let items: Vec<_> = pieces.iter().zip(open.into_iter().map(|at| Mutex::new(Some(at)))).collect();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        for_each(&items, threads, &|_, _| Ok(()), |(piece, at), _| {
            let mut cursor = match lock(at).take() {
                Some(LaneFile::Cursor(cursor)) => cursor,
                Some(LaneFile::Request(request)) => Self::begin(format, piece, *request, ahead)?,
                None => return Err(Error::internal("a piece is begun twice")),
            };
            Self::skip_to(format, piece, &mut cursor)?;
            Ok(LaneFile::Cursor(cursor))
        })
    }

    fn skip_to(format: &F, piece: &Piece, cursor: &mut F::Cursor) -> Result<()> {
        let start = piece.bytes.start.min(end_position(format.forward(cursor)));
        if format.position(cursor) < start {
            format.skip_to(piece.file, cursor, start)?;
        }
        Ok(())
    }

    fn read_piece(&self, format: &F, piece: &Piece, mut cursor: F::Cursor, rows: &mut F::Rows) -> Result<F::Cursor> {
        Self::skip_to(format, piece, &mut cursor)?;
        let end = Self::end(format, piece, &mut cursor);
        format.read(piece.file, &mut cursor, end, Some(rows))?;
        let overrun = format.forward(&mut cursor).reached().saturating_sub(end);
        let known = self.overrun.load(Relaxed);
        // The estimate rises faster than it falls, so that few readers exceed it. A lost update changes only an
        // estimate.
        let weight = if overrun > known { 4 } else { 32 };
        self.overrun.store((known * (weight - 1) + overrun) / weight, Relaxed);
        Ok(cursor)
    }

    /// Returns the end of a piece. A file that is not compressed, although its name says so, ends before its estimate.
    fn end(format: &F, piece: &Piece, cursor: &mut F::Cursor) -> u64 {
        piece.bytes.end.min(end_position(format.forward(cursor)))
    }

    /// Requests a piece's file from the piece's first byte on, or all of a file that is probably compressed.
    fn ask(format: &F, piece: &Piece, until: u64, ahead: usize) -> Result<OpenRequest> {
        let object = format.pool().get(piece.file)?;
        let (offset, until) = match format.pool().estimate_of(piece.file) {
            Some(_) if !format.pool().is_plain(piece.file) => (0, object.size()),
            _ => (piece.bytes.start.saturating_sub(format.bytes_before()), until),
        };
        let head = format.pool().ask_head(piece.file, &object, offset);
        let forward = Forward::beside_others(object, offset..until, ahead)?;
        Ok(OpenRequest { forward, head })
    }

    /// Makes a cursor of a requested file. A compressed file is read from its start.
    fn begin(format: &F, piece: &Piece, request: OpenRequest, ahead: usize) -> Result<F::Cursor> {
        let OpenRequest { forward, head } = request;
        let forward = format.pool().unpacked(piece.file, forward, head, ahead, format.codec_of())?;
        let offset = if forward.is_decoded() { 0 } else { piece.bytes.start.min(end_position(&forward)) };
        format.begin(forward, offset)
    }
}
