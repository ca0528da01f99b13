//! What waits to be written. Bounded: what does not fit is not kept, and nobody waits for the disk.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::index::{Number, Segment};
use crate::lock::{deadline, lock};
use crate::shared::Cell;

/// Rows that wait to be written to one level hold at most so much memory, beyond the quota.
pub(crate) const QUEUE_BYTES_MAX: u64 = 256 << 20;

/// What is to be written.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) cell: Arc<Cell>,
    pub(crate) rows: Rows,
    pub(crate) bytes: u64,
}

/// Rows to be written.
#[derive(Debug)]
pub(crate) enum Rows {
    /// A segment by its number in the index. One that is `passing` leaves that when it is written here.
    Computed { id: u32, segment: Arc<Segment>, passing: bool },
    /// Rows that a filter removed.
    Without(Vec<Number>),
}

/// What the writer does next.
#[derive(Debug)]
pub(crate) enum Next {
    /// More rows.
    Rows(Message),
    /// The time has come to write what there is.
    Due,
    /// Everything up to here is to be written, and then [`Queue::flushed`] called.
    Flush(u64),
    /// Everything is to be written; nothing follows.
    Close,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: u64,
    /// How often everything was asked to be written, and how often it was.
    asked: u64,
    flushed: u64,
    closing: bool,
    ended: bool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// Says whether there is room.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let state = lock(&self.state);
        !state.closing && (state.bytes == 0 || state.bytes + bytes <= QUEUE_BYTES_MAX)
    }

    /// Adds rows, unless there is no room; says whether it did.
    pub(crate) fn push(&self, message: Message) -> Result<(), Message> {
        let mut state = lock(&self.state);
        if state.closing || (state.bytes > 0 && state.bytes + message.bytes > QUEUE_BYTES_MAX) {
            return Err(message);
        }
        state.bytes += message.bytes;
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

    /// Notes that rows are written or given up. Returns what still waits.
    pub(crate) fn release(&self, bytes: u64) -> u64 {
        let mut state = lock(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
        state.bytes
    }

    /// Waits for what is next.
    pub(crate) fn next(&self, due: Option<Instant>) -> Next {
        let mut state = lock(&self.state);
        loop {
            if let Some(message) = state.messages.pop_front() {
                return Next::Rows(message);
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

    fn wait<'a>(&self, state: MutexGuard<'a, State>, left: Option<Duration>) -> MutexGuard<'a, State> {
        match left {
            Some(left) => self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |(state, _)| state),
            None => self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }
}
