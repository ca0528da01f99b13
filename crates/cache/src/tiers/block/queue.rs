//! The bounded queue between the threads that compute and a thread that writes. When the queue is full, it refuses a
//! push and the tier does not keep the rows: no computing thread waits for a write.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::{deadline, lock};

/// The most bytes that wait in one queue. They count beside the quota of memory.
pub(crate) const QUEUE_BYTES_MAX: u64 = 256 << 20;

/// The next action of the writer.
#[derive(Debug)]
pub(crate) enum Next<M> {
    /// Write this. Call [`Queue::release`] with its bytes when it is written.
    More(M),
    /// The `due` time has come: write the gathered rows.
    Due,
    /// Write everything before this point, and then call [`Queue::flushed`] with the number.
    Flush(u64),
    /// Write everything and end: no message follows.
    Close,
}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<M>,
    bytes: u64,
    /// The number of requested flushes, and of completed ones.
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
    /// Says whether a message of `bytes` bytes would be accepted.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let state = lock(&self.state);
        !state.closing && (state.bytes == 0 || state.bytes + bytes <= QUEUE_BYTES_MAX)
    }

    /// Adds a message of `bytes` bytes. Returns it if the queue is full or closed.
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

    /// Waits, at most `limit`, until a quarter of the queue is free or its writer has ended. Returns whether this
    /// happened.
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

    /// Frees the bytes of messages that were written or abandoned. Returns the bytes that still wait.
    pub(crate) fn release(&self, bytes: u64) -> u64 {
        let mut state = lock(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
        state.bytes
    }

    /// Waits for the next action. `due` is when gathered rows must be written.
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

    /// Requests the writer to write everything, and waits at most `limit`. Returns whether it did.
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

    /// Closes the queue, and waits at most `limit` until the writer has ended.
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

    /// Records that the writer has ended.
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
