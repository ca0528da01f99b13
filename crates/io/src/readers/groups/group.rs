//! A decoded group of rows, or one in decoding: the threads that want it divide its parts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use forebay_core::{Error, Result};

use super::packed::Packed;
use super::selection::{RowMask, Selection};
use crate::formats::arrow::Column;
use crate::store::Ahead;

/// A group that is decoded or being decoded. A part is a `P`.
pub(super) struct Group<P> {
    /// The number of the first part that no thread has started to decode.
    next: AtomicUsize,
    state: Mutex<Decoding<P>>,
    /// Signalled when the last part is decoded.
    done: Condvar,
    /// The rows that meet conditions: the first thread that decodes a part finds them, and the others wait for it.
    selected: OnceLock<Result<Selection>>,
    /// The bytes that were requested: those of the columns of conditions, and those of the others. Empty once all parts
    /// are decoded.
    requested: Mutex<[Option<Arc<Ahead>>; 2]>,
    /// The number of rows that were taken.
    taken: AtomicUsize,
}

struct Decoding<P> {
    parts: Vec<(usize, Result<P>)>,
    all: Option<Result<Arc<Decoded>>>,
}

/// A decoded group. The columns that are in `packed` are empty.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) columns: Vec<Column>,
    pub(super) packed: Option<Packed>,
    /// The rows of the group that are in it; `None`: all.
    pub(super) kept: Option<Arc<RowMask>>,
}

impl<P> Default for Group<P> {
    fn default() -> Self {
        let state = Mutex::new(Decoding { parts: Vec::new(), all: None });
        Self {
            next: AtomicUsize::new(0),
            state,
            done: Condvar::new(),
            selected: OnceLock::new(),
            requested: Mutex::default(),
            taken: AtomicUsize::new(0),
        }
    }
}

/// Turns a panic into an error, because other threads wait for the result.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(Error::internal("decoding a group of rows failed")))
}

impl<P> Group<P> {
    fn lock(&self) -> MutexGuard<'_, Decoding<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes parts until every part has a thread. The thread that finishes the last part joins them, or their errors,
    /// and returns `true`.
    pub(super) fn help(
        &self,
        count: usize,
        decode: impl Fn(usize) -> Result<P>,
        join: impl FnOnce(Vec<Result<P>>) -> Result<Decoded>,
    ) -> bool {
        loop {
            let part = self.next.fetch_add(1, Relaxed);
            if part >= count {
                return false;
            }
            // Other threads wait for every part that was started.
            let decoded = guarded(|| decode(part));
            let mut state = self.lock();
            state.parts.push((part, decoded));
            if state.parts.len() < count {
                continue;
            }
            let mut parts = std::mem::take(&mut state.parts);
            drop(state);
            parts.sort_by_key(|(part, _)| *part);
            let decoded = guarded(|| join(parts.into_iter().map(|(_, part)| part).collect()));
            *self.requested.lock().unwrap_or_else(PoisonError::into_inner) = [None, None];
            self.lock().all = Some(decoded.map(Arc::new));
            self.done.notify_all();
            return true;
        }
    }

    /// Returns the rows that meet conditions, found by `select` once.
    pub(super) fn selected(&self, select: impl FnOnce() -> Result<Selection>) -> Result<&Selection> {
        self.selected.get_or_init(|| guarded(select)).as_ref().map_err(Clone::clone)
    }

    /// Returns the requested bytes of the columns of conditions, or of the others; `request` requests them once.
    pub(super) fn requested(&self, of_conditions: bool, request: impl FnOnce() -> Option<Ahead>) -> Option<Arc<Ahead>> {
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let requested = &mut requested[usize::from(of_conditions)];
        if requested.is_none() {
            *requested = request().map(Arc::new);
        }
        requested.clone()
    }

    /// Waits until the group is decoded. Returns the error of the first part that failed.
    pub(super) fn wait(&self) -> Result<Arc<Decoded>> {
        let mut state = self.lock();
        loop {
            if let Some(all) = &state.all {
                return all.clone();
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says whether a thread has begun to decode it.
    pub(super) fn is_begun(&self) -> bool {
        self.next.load(Relaxed) > 0
    }

    pub(super) fn is_decoded(&self) -> bool {
        matches!(self.lock().all, Some(Ok(_)))
    }

    /// Records that rows were taken. Returns the total so far.
    pub(super) fn take(&self, rows: usize) -> usize {
        self.taken.fetch_add(rows, Relaxed) + rows
    }
}
