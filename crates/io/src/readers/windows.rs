//! Reads windows of a shuffle whose rows are not counted: pieces of files that are read side by side, each from front to back.
//!
//! Each group of lanes keeps a cursor in each file that it is in, and windows of a group follow each other, so a file is read once. Where
//! a piece begins is known once the piece before it was read; that is kept for later epochs. A window that no cursor is at (after a
//! resume, or where another process reads the windows before it) walks there from the nearest place that is known.
//! What is known changes what is read, never which rows a piece has.
//!
//! A piece is a range of a file's stored bytes. Where a file is compressed, a row counts as beginning at an eighth of its offset in the
//! content, and the last piece has all rows that are left: text is seldom compressed more than that. Such a file is read from its start.
//! Bounds: [`GROUPS_MAX`] groups keep cursors, of each [`READY_MAX`] windows wait that were read for another thread, and [`KNOWN_MAX`] places
//! are known.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::Chunk;
use forebay_plan::{EpochLanes, Piece};

use super::Chunks;
use super::pool::Pool;
use crate::store::{CodecOf, Forward};

/// Groups of lanes, of all epochs that are read, whose cursors are kept.
const GROUPS_MAX: usize = 8;
/// Windows of a group that were read before another one was, and are not taken yet.
const READY_MAX: usize = 4;
/// How many windows before the one that is asked for may be read for other threads, which are about to ask for them.
const BEHIND_MAX: u64 = 4;
/// Places where pieces begin that are kept.
const KNOWN_MAX: usize = 1 << 20;
/// The bytes that wait for the reader of a lane.
const AHEAD: std::ops::Range<u64> = 256 << 10..8 << 20;

/// Bit of a row's number in its sample id that says that the other bits are where it begins in its file.
const BY_OFFSET: u64 = SampleId::ROWS_MAX >> 1;

/// Names the row that begins at `offset` of a file.
///
/// # Errors
/// Invalid where a file is too long for that.
pub(super) fn sample_at(file: usize, offset: u64) -> Result<SampleId> {
    if offset >= BY_OFFSET {
        return Err(Error::invalid("rows beyond 512 GiB of a file cannot be named in a shuffle over windows")
            .with("offset", offset)
            .hint("write smaller files"));
    }
    Ok(SampleId::new(file as u64, BY_OFFSET | offset))
}

/// Returns where in its file a row begins, if its name says so.
pub(crate) fn offset_of(sample: SampleId) -> Option<u64> {
    (sample.row() & BY_OFFSET != 0).then_some(sample.row() & !BY_OFFSET)
}

/// Bytes of the content for a stored byte of a compressed file.
const DENSITY: u64 = 8;

/// Returns which stored byte a row counts as beginning at, whose offset in what `forward` reads is given.
pub(super) fn position(forward: &Forward, offset: u64) -> u64 {
    let last = || forward.object().size().saturating_sub(1);
    if forward.is_decoded() { (offset / DENSITY).min(last()) } else { offset }
}

/// Where in a file a cursor begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begin {
    /// At a row that begins at this offset, or at the start of the file.
    Row(u64),
    /// At the first row that begins at or behind this offset.
    Byte(u64),
}

/// A format whose rows follow each other in a file.
pub(super) trait Sequential: Send + Sync {
    /// A place in an open file where a row begins, or the file's end.
    type Cursor: Send;
    /// Rows in memory.
    type Rows: Send + Sync + Default;

    /// Says whether a reader finds the next row in the middle of a file: then every offset begins a block.
    fn divides(&self) -> bool;

    /// Returns the files.
    fn pool(&self) -> &Pool;

    /// Tells by its first bytes what a file is compressed with.
    fn codec_of(&self) -> CodecOf;

    /// Begins to read a file.
    fn begin(&self, forward: Forward, begin: Begin) -> Result<Self::Cursor>;

    /// Returns the position of the cursor's row, which is not before that; behind the last row, the size of the file.
    fn position(&self, cursor: &Self::Cursor) -> u64;

    /// Moves the cursor to the first row whose position is `end` or behind, and adds the rows that it passes to `rows`, if that is given.
    fn read(&self, file: usize, cursor: &mut Self::Cursor, end: u64, rows: Option<&mut Self::Rows>) -> Result<()>;

    /// Returns the number of rows.
    fn len(rows: &Self::Rows) -> usize;

    /// Makes a chunk of these of the rows.
    fn chunk(&self, rows: &Self::Rows, places: &[u64], epoch: Epoch) -> Result<Chunk>;
}

/// A file that a lane is about to read: its bytes are on their way.
struct OpenRequest {
    forward: Forward,
    /// Where they begin.
    offset: u64,
    begin: Begin,
}

/// Where a lane is when a piece is to be read.
enum LaneFile<C> {
    Cursor(C),
    Request(Box<OpenRequest>),
}

/// The cursors of one group of lanes in one epoch.
struct Group<F: Sequential> {
    /// The window that the cursors are at; `None` if there are none.
    next: Option<u64>,
    /// By lane.
    cursors: HashMap<usize, Open<F>>,
    /// Windows that were read for other threads.
    ready: VecDeque<(u64, Arc<F::Rows>)>,
}

/// A file that a lane is in.
struct Open<F: Sequential> {
    file: usize,
    /// Where the piece ends that was read last: the cursor is at the first row that begins there or behind.
    byte: u64,
    cursor: F::Cursor,
}

impl<F: Sequential> Default for Group<F> {
    fn default() -> Self {
        Self { next: None, cursors: HashMap::new(), ready: VecDeque::new() }
    }
}

/// Where pieces begin: by file and the first byte that is a piece's, the first row at or behind it.
#[derive(Default)]
struct Known {
    of: HashMap<usize, BTreeMap<u64, u64>>,
    count: usize,
}

impl Known {
    fn first_row(&self, file: usize, byte: u64) -> Option<u64> {
        self.of.get(&file)?.get(&byte).copied()
    }

    /// Returns the last row that is known to begin a piece that does not begin behind `byte`.
    fn nearest(&self, file: usize, byte: u64) -> Option<u64> {
        self.of.get(&file)?.range(..=byte).next_back().map(|(_, row)| *row)
    }

    fn learn(&mut self, file: usize, byte: u64, row: u64) {
        if self.count < KNOWN_MAX && self.of.entry(file).or_default().insert(byte, row).is_none() {
            self.count += 1;
        }
    }
}

/// Names a group of lanes of an epoch.
type GroupKey = (u64, u64);
/// The groups that were read last, the latest at the end.
type Recent<F> = VecDeque<(GroupKey, Arc<Mutex<Group<F>>>)>;

/// Reads windows of one source.
pub(super) struct Windows<F: Sequential> {
    known: Mutex<Known>,
    groups: Mutex<Recent<F>>,
}

impl<F: Sequential> Default for Windows<F> {
    fn default() -> Self {
        Self { known: Mutex::default(), groups: Mutex::default() }
    }
}

/// What is locked is consistent between statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Sequential> Windows<F> {
    /// Reads a window, and returns its rows in chunks of `rows`, in the window's order.
    pub(super) fn stream<'a>(
        &self,
        format: &'a F,
        lanes: &EpochLanes,
        number: u64,
        epoch: Epoch,
        rows: usize,
    ) -> Result<Chunks<'a>> {
        let window = self.load(format, lanes, number)?;
        let count = F::len(&window) as u64;
        let permutation = lanes.permutation(number, count);
        let step = rows.max(1) as u64;
        Ok(Box::new((0..count).step_by(step as usize).map(move |first| {
            let mut places: Vec<u64> = (first..count.min(first + step)).collect();
            permutation.map(&mut places);
            format.chunk(&window, &places, epoch)
        })))
    }

    fn load(&self, format: &F, lanes: &EpochLanes, number: u64) -> Result<Arc<F::Rows>> {
        let (group, index) = lanes.place(number);
        let of = self.group((lanes.key(), group));
        let mut of = lock(&of);
        if let Some(at) = of.ready.iter().position(|(ready, _)| *ready == index) {
            return of.ready.remove(at).map_or_else(|| Err(Error::internal("no window")), |(_, rows)| Ok(rows));
        }
        if of.next.is_some_and(|next| next > index) {
            // Somebody asks again, or so late that it was dropped.
            let mut apart = Group::default();
            return self.read(format, lanes, (group, index), &mut apart);
        }
        let first = of.next.filter(|next| index - next <= BEHIND_MAX);
        let first = first.unwrap_or_else(|| self.first_known(lanes, group, index));
        for before in first..index {
            let rows = self.read(format, lanes, (group, before), &mut of)?;
            of.ready.push_back((before, rows));
            let surplus = of.ready.len().saturating_sub(READY_MAX);
            of.ready.drain(..surplus);
        }
        self.read(format, lanes, (group, index), &mut of)
    }

    fn group(&self, key: GroupKey) -> Arc<Mutex<Group<F>>> {
        let mut groups = lock(&self.groups);
        let found = groups.iter().position(|(of, _)| *of == key).and_then(|at| groups.remove(at));
        let found = found.unwrap_or_else(|| (key, Arc::default()));
        groups.push_back(found.clone());
        if groups.len() > GROUPS_MAX {
            groups.pop_front();
        }
        found.1
    }

    /// Returns the window to begin with where no cursor is: one shortly before that all pieces are known of, so that threads that begin
    /// out of order do not walk through each other's pieces.
    fn first_known(&self, lanes: &EpochLanes, group: u64, index: u64) -> u64 {
        let known = lock(&self.known);
        let is_known = |piece: &Piece| {
            piece.bytes.start == piece.block_start || known.first_row(piece.file, piece.bytes.start).is_some()
        };
        let mut before = (index.saturating_sub(BEHIND_MAX)..=index).rev();
        before.find(|window| lanes.pieces(group, *window).iter().all(is_known)).unwrap_or(index)
    }

    /// Reads a window with the cursors of its group, which are at its pieces then, or are moved there.
    fn read(
        &self,
        format: &F,
        lanes: &EpochLanes,
        (group, index): (u64, u64),
        of: &mut Group<F>,
    ) -> Result<Arc<F::Rows>> {
        // Cursors that an error leaves in the middle of a window are of no use.
        of.next = None;
        let mut cursors = std::mem::take(&mut of.cursors);
        let ahead = lanes.share_bytes().clamp(AHEAD.start, AHEAD.end) as usize;
        let pieces = lanes.pieces(group, index);
        // Every file is asked for before the first one is read.
        let mut open = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let at_hand = cursors.remove(&piece.lane).filter(|open| self.is_at(format, piece, open));
            open.push(match at_hand {
                Some(open) => LaneFile::Cursor(open.cursor),
                None => LaneFile::Request(self.ask(format, piece, ahead)?.into()),
            });
        }
        let mut rows = F::Rows::default();
        for (piece, at) in pieces.iter().zip(open) {
            let cursor = match at {
                LaneFile::Cursor(cursor) => cursor,
                LaneFile::Request(request) => Self::begin(format, piece.file, *request, ahead)?,
            };
            let cursor = self.read_piece(format, piece, cursor, &mut rows)?;
            cursors.insert(piece.lane, Open { file: piece.file, byte: piece.bytes.end, cursor });
        }
        (of.next, of.cursors) = (Some(index + 1), cursors);
        Ok(Arc::new(rows))
    }

    /// Says whether a file is open where a piece begins; or before that, if nothing nearer is known.
    fn is_at(&self, format: &F, piece: &Piece, open: &Open<F>) -> bool {
        let known = || lock(&self.known).first_row(piece.file, piece.bytes.start).is_some();
        let is_before = || !format.divides() && format.position(&open.cursor) <= piece.bytes.start && !known();
        open.file == piece.file && (open.byte == piece.bytes.start || is_before())
    }

    fn read_piece(&self, format: &F, piece: &Piece, mut cursor: F::Cursor, rows: &mut F::Rows) -> Result<F::Cursor> {
        if format.position(&cursor) < piece.bytes.start {
            format.read(piece.file, &mut cursor, piece.bytes.start, None)?;
        }
        self.learn(piece.file, piece.bytes.start, format.position(&cursor));
        format.read(piece.file, &mut cursor, piece.bytes.end, Some(rows))?;
        self.learn(piece.file, piece.bytes.end, format.position(&cursor));
        Ok(cursor)
    }

    /// Asks for a piece's file from the last row on that is known not to be behind the piece's first.
    fn ask(&self, format: &F, piece: &Piece, ahead: usize) -> Result<OpenRequest> {
        let nearest = || lock(&self.known).nearest(piece.file, piece.bytes.start);
        let begin = match format.divides() {
            true => Begin::Byte(piece.bytes.start),
            false => Begin::Row(nearest().filter(|row| *row >= piece.block_start).unwrap_or(piece.block_start)),
        };
        let offset = match begin {
            Begin::Row(offset) => offset,
            // The byte before it may be the end of a line.
            Begin::Byte(offset) => offset.saturating_sub(1),
        };
        let forward = Forward::beside_others(format.pool().get(piece.file)?, offset, ahead)?;
        Ok(OpenRequest { forward, offset, begin })
    }

    /// Makes a cursor of a file that was asked for. What a compressed file holds is read from its start.
    fn begin(format: &F, file: usize, request: OpenRequest, ahead: usize) -> Result<F::Cursor> {
        let OpenRequest { forward, offset, begin } = request;
        let forward = format.pool().unpacked(file, forward, offset, ahead, format.codec_of())?;
        let begin = if forward.is_decoded() { Begin::Byte(0) } else { begin };
        format.begin(forward, begin)
    }

    fn learn(&self, file: usize, byte: u64, row: u64) {
        lock(&self.known).learn(file, byte, row);
    }
}
