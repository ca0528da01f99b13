//! Blocks: requested or received ranges of a file; and the memory budget of all blocks, with the number of reads that
//! wait for a store.
//!
//! Invariant: one thread receives the bytes of a block, and other threads wait for that thread. Bound: the read-ahead
//! blocks of a mount have at most [`AHEAD_BYTES_MAX`] bytes together, and each thread has at most one block for its own
//! read.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result};
use forebay_io::{Arriving, TreeFile};

/// Most bytes of read-ahead of a mount.
pub const AHEAD_BYTES_MAX: u64 = 256 << 20;

/// Bytes of all blocks of a mount, and its reads that wait for a store.
#[derive(Debug, Default)]
pub(crate) struct AheadBudget {
    bytes: AtomicU64,
    reads: AtomicUsize,
}

impl AheadBudget {
    /// Counts a read that waits for a store, until the result is dropped.
    pub(crate) fn read(&self) -> Reading<'_> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Reading(self)
    }

    /// Says whether a read of a program waits for a store.
    pub(crate) fn is_read(&self) -> bool {
        self.reads.load(Ordering::Relaxed) > 0
    }
}

/// A read that waits for a store.
#[derive(Debug)]
pub(crate) struct Reading<'a>(&'a AheadBudget);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.reads.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Taken {
    budget: Arc<AheadBudget>,
    bytes: u64,
}

impl Taken {
    /// Reserves bytes of the budget; with `must`, also above its limit.
    fn take(budget: &Arc<AheadBudget>, bytes: u64, must: bool) -> Option<Self> {
        let taken = Self { budget: budget.clone(), bytes };
        let before = budget.bytes.fetch_add(bytes, Ordering::Relaxed);
        (must || before + bytes <= AHEAD_BYTES_MAX).then_some(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

enum State {
    Asked(Arriving),
    Here(Arc<Vec<u8>>),
    Failed(Error),
}

/// See the module's documentation.
pub(super) struct Block {
    range: Range<u64>,
    state: Mutex<State>,
    _taken: Taken,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("range", &self.range).finish_non_exhaustive()
    }
}

impl Block {
    /// Requests a range without waiting. `None` if the budget is spent, or the file needs no request.
    pub(super) fn ask(file: &TreeFile, range: Range<u64>, budget: &Arc<AheadBudget>, must: bool) -> Option<Self> {
        let bytes = range.end - range.start;
        let taken = Taken::take(budget, bytes, must)?;
        let arriving = file.request(range.start, bytes as usize)?;
        Some(Self { range, state: Mutex::new(State::Asked(arriving)), _taken: taken })
    }

    pub(super) fn start(&self) -> u64 {
        self.range.start
    }

    pub(super) fn end(&self) -> u64 {
        self.range.end
    }

    /// Waits for the bytes of the block.
    pub(super) fn bytes(&self, file: &TreeFile) -> Result<Arc<Vec<u8>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = State::Failed(Error::internal("a read was dropped").with("file", file.uri()));
        let now = match std::mem::replace(&mut *state, waiting) {
            State::Asked(arriving) => {
                let mut bytes = vec![0; (self.range.end - self.range.start) as usize];
                arriving(&mut bytes).map_or_else(State::Failed, |()| State::Here(Arc::new(bytes)))
            }
            arrived => arrived,
        };
        let bytes = match &now {
            State::Here(bytes) => Ok(bytes.clone()),
            State::Failed(e) => Err(e.clone()),
            State::Asked(_) => Err(Error::internal("a block is asked for twice")),
        };
        *state = now;
        bytes
    }
}
