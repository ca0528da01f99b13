//! Reads windows of a shuffle whose rows are not counted: pieces of files that are read side by side, each from front to back.
//!
//! Each group of lanes keeps a cursor in each file that it is in, and windows of a group follow each other, so a file is read once. Where
//! a piece begins is known once the piece before it was read; that is kept for later epochs. A window that nobody's cursors are at (after a
//! resume, or where another process reads the windows before it) walks there from the nearest place that is known.
//! What is known changes what is read, never which rows a piece has.
//! Bounds: [`GROUPS_MAX`] groups keep cursors, and of each [`READY_MAX`] windows wait that were read for another thread.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::Chunk;
use forebay_plan::{EpochLanes, Piece};

use super::Chunks;

/// Groups of lanes, of all epochs that are read, whose cursors are kept.
const GROUPS_MAX: usize = 8;
/// Windows of a group that were read before another one was, and are not taken yet.
const READY_MAX: usize = 4;
/// How many windows before the one that is asked for may be read for other threads, which are about to ask for them.
const BEHIND_MAX: u64 = 4;
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

/// A format whose rows follow each other in a file.
pub(super) trait Sequential: Send + Sync {
    /// A place in an open file where a row begins, or the file's end.
    type Cursor: Send;
    /// Rows in memory.
    type Rows: Send + Sync + Default;

    /// Opens a file at a row that begins at `offset`; at most `ahead` bytes of it wait for the reader.
    fn open(&self, file: usize, offset: u64, ahead: usize) -> Result<Self::Cursor>;

    /// Opens a file at the first row that begins at or behind `offset`, where a block begins.
    fn open_block(&self, file: usize, offset: u64, ahead: usize) -> Result<Self::Cursor>;

    /// Returns where the cursor's row begins.
    fn offset(&self, cursor: &Self::Cursor) -> u64;

    /// Moves the cursor to the first row that begins at or behind `end`, and adds the rows that it passes to `rows`, if that is given.
    fn read(&self, file: usize, cursor: &mut Self::Cursor, end: u64, rows: Option<&mut Self::Rows>) -> Result<()>;

    /// Returns the number of rows.
    fn len(rows: &Self::Rows) -> usize;

    /// Makes a chunk of these of the rows.
    fn chunk(&self, rows: &Self::Rows, places: &[u64], epoch: Epoch) -> Result<Chunk>;
}

/// The cursors of one group of lanes in one epoch.
struct Group<F: Sequential> {
    /// The window that the cursors are at; `None` if there are none.
    next: Option<u64>,
    /// By lane: the file, and the cursor in it.
    cursors: HashMap<usize, (usize, F::Cursor)>,
    /// Windows that were read for other threads.
    ready: VecDeque<(u64, Arc<F::Rows>)>,
}

impl<F: Sequential> Default for Group<F> {
    fn default() -> Self {
        Self { next: None, cursors: HashMap::new(), ready: VecDeque::new() }
    }
}

/// Where pieces begin: by file and the first byte that is a piece's, the first row at or behind it.
type Known = HashMap<usize, BTreeMap<u64, u64>>;
/// Names a group of lanes of an epoch.
type GroupKey = (u64, u64);

/// Reads windows of one source.
pub(super) struct Windows<F: Sequential> {
    known: Mutex<Known>,
    groups: Mutex<VecDeque<(GroupKey, Arc<Mutex<Group<F>>>)>>,
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
            let begins = |of: &BTreeMap<u64, u64>| of.contains_key(&piece.bytes.start);
            piece.bytes.start == piece.block_start || known.get(&piece.file).is_some_and(begins)
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
            let at_hand = cursors.remove(&piece.lane).filter(|(file, _)| *file == piece.file).map(|(_, cursor)| cursor);
            let at_hand = at_hand.filter(|cursor| self.is_at(piece, format.offset(cursor)));
            open.push(at_hand.map_or_else(|| self.open(format, piece, ahead), Ok)?);
        }
        let mut rows = F::Rows::default();
        for (piece, cursor) in pieces.iter().zip(open) {
            let cursor = self.read_piece(format, piece, cursor, &mut rows)?;
            cursors.insert(piece.lane, (piece.file, cursor));
        }
        (of.next, of.cursors) = (Some(index + 1), cursors);
        Ok(Arc::new(rows))
    }

    /// Says whether a cursor that is at `offset` is where a piece begins; or before that, if nothing nearer is known.
    fn is_at(&self, piece: &Piece, offset: u64) -> bool {
        let known = lock(&self.known);
        let begins = known.get(&piece.file).and_then(|of| of.get(&piece.bytes.start));
        begins.map_or(offset <= piece.bytes.start, |begins| *begins == offset)
    }

    fn read_piece(&self, format: &F, piece: &Piece, mut cursor: F::Cursor, rows: &mut F::Rows) -> Result<F::Cursor> {
        if format.offset(&cursor) < piece.bytes.start {
            format.read(piece.file, &mut cursor, piece.bytes.start, None)?;
        }
        self.learn(piece.file, piece.bytes.start, format.offset(&cursor));
        format.read(piece.file, &mut cursor, piece.bytes.end, Some(rows))?;
        self.learn(piece.file, piece.bytes.end, format.offset(&cursor));
        Ok(cursor)
    }

    /// Opens a piece's file at the last row that is known not to be behind the piece's first.
    fn open(&self, format: &F, piece: &Piece, ahead: usize) -> Result<F::Cursor> {
        let nearest = {
            let known = lock(&self.known);
            let before = |of: &BTreeMap<u64, u64>| of.range(..=piece.bytes.start).next_back().map(|(_, row)| *row);
            known.get(&piece.file).and_then(before).filter(|row| *row >= piece.block_start)
        };
        match nearest {
            Some(row) => format.open(piece.file, row, ahead),
            None => format.open_block(piece.file, piece.block_start, ahead),
        }
    }

    fn learn(&self, file: usize, byte: u64, row: u64) {
        lock(&self.known).entry(file).or_default().insert(byte, row);
    }
}
