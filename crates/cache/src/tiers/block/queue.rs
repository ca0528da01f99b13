//! What waits to be written. Bounded: what does not fit is not kept, and nobody waits for the disk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::{deadline, lock};

/// What waits to be written to one level holds at most so much memory, beyond the quota.
pub(crate) const QUEUE_BYTES_MAX: u64 = 256 << 20;

/// What the writer does next.
#[derive(Debug)]
pub(crate) enum Next<M> {
    /// More to write; [`Queue::release`] its bytes when that is done.
    More(M),
    /// The time has come to write what there is.
    Due,
    /// Everything up to here is to be written, and then [`Queue::flushed`] called.
    Flush(u64),
    /// Everything is to be written; nothing follows.
    Close,
}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<M>,
    bytes: u64,
    /// How often everything was asked to be written, and how often it was.
    asked: u64,
    flushed: u64,
    closing: bool,
    ended: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Queue<M> {
    state: Mutex<State<M>>,
    changed: Condvar,
}

impl<M> Default for Queue<M> {
    fn default() -> Self {
        let state = State { messages: VecDeque::new(), bytes: 0, asked: 0, flushed: 0, closing: false, ended: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<M> Queue<M> {
    /// Says whether there is room.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let state = lock(&self.state);
        !state.closing && (state.bytes == 0 || state.bytes + bytes <= QUEUE_BYTES_MAX)
    }

    /// Adds what holds so many bytes, unless there is no room: then it is given back.
    pub(crate) fn push(&self, message: M, bytes: u64) -> Result<(), M> {
        let mut state = lock(&self.state);
        if state.closing || (state.bytes > 0 && state.bytes + bytes > QUEUE_BYTES_MAX) {
            return Err(message);
        }
        state.bytes += bytes;
        state.messages.push_back(message);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until there is room for much, `limit` at most. Says whether there is.
    pub(crate) fn ease(&self, limit: Duration) -> bool {
        let until = deadline(limit);
        let mut state = lock(&self.state);
        while state.bytes > QUEUE_BYTES_MAX / 4 * 3 && !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, Some(left));
        }
        true
    }

    /// Notes that so many bytes are written or given up. Returns what still waits.
    pub(crate) fn release(&self, bytes: u64) -> u64 {
        let mut state = lock(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
        state.bytes
    }

    /// Waits for what is next.
    pub(crate) fn next(&self, due: Option<Instant>) -> Next<M> {
        let mut state = lock(&self.state);
        loop {
            if let Some(message) = state.messages.pop_front() {
                return Next::More(message);
            }
            if state.asked > state.flushed {
                return Next::Flush(state.asked);
            }
            if state.closing {
                return Next::Close;
            }
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Next::Due;
            }
            state = self.wait(state, left);
        }
    }

    /// Asks for everything to be written, and waits for it at most `limit`. Says whether it was.
    pub(crate) fn flush(&self, limit: Duration) -> bool {
        let until = deadline(limit);
        let mut state = lock(&self.state);
        state.asked += 1;
        let asked = state.asked;
        self.changed.notify_all();
        while state.flushed < asked && !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, Some(left));
        }
        state.flushed >= asked
    }

    pub(crate) fn flushed(&self, asked: u64) {
        lock(&self.state).flushed = asked;
        self.changed.notify_all();
    }

    /// Takes no more, and waits at most `limit` for the writer to end.
    pub(crate) fn close(&self, limit: Duration) {
        let until = deadline(limit);
        let mut state = lock(&self.state);
        state.closing = true;
        self.changed.notify_all();
        while !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.wait(state, Some(left));
        }
    }

    /// The writer has ended.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        (state.closing, state.ended) = (true, true);
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<M>>, left: Option<Duration>) -> MutexGuard<'a, State<M>> {
        match left {
            Some(left) => self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |(state, _)| state),
            None => self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }
}
