//! What one job has computed, for other jobs with the same samples that run at the same time: they take the chunk, and do
//! not compute it again.
//!
//! Jobs are the same where their chunks are ([`Stream`]): pipeline, seed, source, how epochs are dealt, and whose they are.
//! The dispatcher gives their splits to the worker that has computed them; here whoever comes first to a chunk computes it, the others
//! wait for that or find it. Nothing is copied: readers on this machine are told that others read the same memory.
//!
//! Invariants: a chunk that is found has the bits that would be computed (W-1), once its reader has run the ops that are left; one that is being computed is waited for at most
//! [`WAIT_MAX`], and whoever fails to compute it lets the others go on; what is remembered is at most [`BYTES_MAX`], the newest. So
//! no job holds up another for longer than a chunk takes, and one that falls behind computes for itself. What all have had makes
//! room first, and is at most [`HAD_BYTES_MAX`]: jobs side by side take few blocks of memory in turns, and not fresh pages for each.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_proto::Stream;

use crate::held::{Key, Made};
use crate::lock::lock;

/// The most bytes of chunks that are remembered.
const BYTES_MAX: usize = 256 << 20;
/// Of them, those that all jobs of a stream have had: for one that has just begun, and for a split that is computed once more.
const HAD_BYTES_MAX: usize = 32 << 20;
/// How long a chunk that another thread computes is waited for.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// A chunk: of a stream, by consumer, epoch, ordinal and index.
type Piece = (u64, u32, u64, u64, u64);

enum Entry {
    /// Somebody computes it.
    Flying,
    /// It is here, and these members have had it.
    Here(Made, Vec<u64>),
}

#[derive(Default)]
struct State {
    /// The number of each stream, and how many jobs have it.
    streams: HashMap<Stream, (u64, Arc<AtomicU64>)>,
    next: u64,
    members: u64,
    chunks: HashMap<Piece, Entry>,
    /// Those that are here and some job has not had, the oldest first.
    order: VecDeque<Piece>,
    /// Those that all have had.
    had: VecDeque<Piece>,
    bytes: usize,
    had_bytes: usize,
}

/// The chunks that jobs of one worker share.
pub(crate) struct Window {
    state: Mutex<State>,
    changed: Condvar,
    bytes_max: usize,
    had_bytes_max: usize,
}

/// A job's part in it; dropped, it has none.
pub(crate) struct Member {
    window: Arc<Window>,
    stream: Stream,
    number: u64,
    id: u64,
    jobs: Arc<AtomicU64>,
}

/// What became of a chunk that was asked for.
pub(crate) enum Taken {
    /// It is here.
    Chunk(Made),
    /// It is the caller's to compute.
    Mine(Flight),
    /// Another thread computes it.
    Flying,
}

/// A chunk that its holder computes. Dropped, it lets others compute it.
pub(crate) struct Flight {
    window: Arc<Window>,
    piece: Piece,
    member: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self::new(BYTES_MAX, HAD_BYTES_MAX)
    }
}

impl Window {
    fn new(bytes_max: usize, had_bytes_max: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), bytes_max, had_bytes_max }
    }

    /// Takes a job in.
    pub(crate) fn join(self: &Arc<Self>, stream: Stream) -> Member {
        let mut state = lock(&self.state);
        let next = state.next;
        let (number, jobs) = state.streams.entry(stream.clone()).or_insert_with(|| (next, Arc::default())).clone();
        state.next += u64::from(number == next);
        jobs.fetch_add(1, Relaxed);
        state.members += 1;
        Member { window: self.clone(), stream, number, id: state.members, jobs }
    }
}

impl State {
    fn drop_oldest(&mut self) -> bool {
        if self.drop_had() {
            return true;
        }
        let Some(piece) = self.order.pop_front() else { return false };
        self.bytes -= self.chunks.remove(&piece).map_or(0, |entry| entry.num_bytes());
        true
    }

    fn drop_had(&mut self) -> bool {
        let Some(piece) = self.had.pop_front() else { return false };
        let bytes = self.chunks.remove(&piece).map_or(0, |entry| entry.num_bytes());
        self.bytes -= bytes;
        self.had_bytes -= bytes;
        true
    }

    /// Notes that a member has a chunk that is here; where it is the last of `jobs`, the chunk makes room first.
    fn note(&mut self, piece: Piece, member: u64, jobs: u64, had_bytes_max: usize) {
        let Some(Entry::Here(made, members)) = self.chunks.get_mut(&piece) else { return };
        if !members.contains(&member) {
            members.push(member);
        }
        if (members.len() as u64) < jobs {
            return;
        }
        // The oldest of these are had first: they are at the front.
        if let Some(at) = self.order.iter().position(|other| *other == piece) {
            self.had_bytes += made.chunk.num_bytes();
            self.order.remove(at);
            self.had.push_back(piece);
        }
        while self.had_bytes > had_bytes_max && self.drop_had() {}
    }

    fn drop_stream(&mut self, number: u64) {
        let is_its = |piece: &Piece| piece.0 == number;
        self.order.retain(|piece| !is_its(piece));
        let (had, left): (VecDeque<Piece>, _) = std::mem::take(&mut self.had).into_iter().partition(is_its);
        self.had = left;
        self.had_bytes -= had.iter().filter_map(|piece| self.chunks.get(piece)).map(Entry::num_bytes).sum::<usize>();
        let gone = self.chunks.extract_if(|piece, entry| is_its(piece) && matches!(entry, Entry::Here(..)));
        let bytes: usize = gone.map(|(_, entry)| entry.num_bytes()).sum();
        self.bytes -= bytes;
    }
}

impl Entry {
    fn num_bytes(&self) -> usize {
        if let Entry::Here(made, _) = self { made.chunk.num_bytes() } else { 0 }
    }
}

impl Member {
    /// Says whether there is another job of its kind here now.
    pub(crate) fn is_shared(&self) -> bool {
        self.jobs.load(Relaxed) > 1
    }

    /// Asks for a chunk. One that is here stays here for the others.
    pub(crate) fn take(&self, split: Key, index: u64) -> Taken {
        let piece = self.piece(split, index);
        let mut state = lock(&self.window.state);
        match state.chunks.get(&piece) {
            Some(Entry::Flying) => Taken::Flying,
            Some(Entry::Here(made, _)) => {
                let made = made.clone();
                state.note(piece, self.id, self.jobs.load(Relaxed), self.window.had_bytes_max);
                Taken::Chunk(made)
            }
            None => {
                state.chunks.insert(piece, Entry::Flying);
                Taken::Mine(Flight { window: self.window.clone(), piece, member: self.id })
            }
        }
    }

    /// Waits until nobody computes a chunk any more; says whether that was within [`WAIT_MAX`].
    pub(crate) fn wait(&self, split: Key, index: u64) -> bool {
        let (piece, until) = (self.piece(split, index), Instant::now() + WAIT_MAX);
        let mut state = lock(&self.window.state);
        while matches!(state.chunks.get(&piece), Some(Entry::Flying)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.window.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn piece(&self, split: Key, index: u64) -> Piece {
        (self.number, split.consumer, split.epoch, split.ordinal, index)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = lock(&self.window.state);
        let left = self.jobs.fetch_sub(1, Relaxed) - 1;
        if left == 0 {
            state.streams.remove(&self.stream);
        }
        if left < 2 {
            state.drop_stream(self.number);
        }
    }
}

impl Flight {
    /// Remembers the chunk, which is shared from now on.
    pub(crate) fn give(self, made: &mut Made) {
        let bytes = made.chunk.num_bytes();
        if bytes > self.window.bytes_max {
            return;
        }
        made.shared = true;
        let mut state = lock(&self.window.state);
        while state.bytes + bytes > self.window.bytes_max && state.drop_oldest() {}
        state.bytes += bytes;
        state.order.push_back(self.piece);
        state.chunks.insert(self.piece, Entry::Here(made.clone(), vec![self.member]));
        // Those who wait are told when this is dropped.
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = lock(&self.window.state);
        if matches!(state.chunks.get(&self.piece), Some(Entry::Flying)) {
            state.chunks.remove(&self.piece);
        }
        drop(state);
        self.window.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
