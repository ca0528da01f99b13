//! The slots of a split buffer: the chunks of the current run, and how far its consumer has read.

use std::collections::VecDeque;

use forebay_core::Error;

use crate::splits::chunk::ProducedChunk;

/// The state at an index for a consumer.
pub(crate) enum ReadOutcome {
    /// The chunk.
    Chunk(ProducedChunk),
    /// The split failed here.
    Failed(Error),
    /// The split ends here.
    End,
    /// The chunk is not computed yet.
    NotYet,
    /// The chunk was dropped after it was sent, or its memory was handed over: the split must be computed again.
    Dropped,
    /// This worker does not hold the lease any more.
    NotHeld,
    /// The split has only so many chunks.
    Beyond(u64),
}

pub(super) enum Slot {
    Waiting,
    Ready(ProducedChunk),
    Failed(Error),
    /// A consumer on this machine has the memory.
    GivenAway,
}

impl Slot {
    pub(super) fn num_bytes(&self) -> usize {
        if let Slot::Ready(produced) = self { produced.chunk.num_bytes() } else { 0 }
    }
}

pub(super) struct BufferState {
    pub(super) token: u64,
    /// The number of row ops that run on chunks computed from now on, as in the lease; `None` is the default boundary.
    pub(super) ops_on_worker: Option<u32>,
    /// Incremented when the split is computed again.
    pub(super) run: u64,
    /// The index of the first slot.
    pub(super) base: u64,
    pub(super) slots: VecDeque<Slot>,
    /// The number of chunks, once known.
    pub(super) total: Option<u64>,
    /// The number of chunks that are ready or failed.
    pub(super) resolved: u64,
    pub(super) first_failed: Option<u64>,
    /// The first index that no consumer has read yet, and the bytes of the chunks from there on.
    pub(super) unsent: u64,
    pub(super) unsent_bytes: usize,
    pub(super) sent_bytes: usize,
    /// Whether the split is filled in order and may lose its oldest chunks.
    pub(super) streamed: bool,
    pub(super) open: bool,
    pub(super) removed: bool,
}

impl BufferState {
    pub(super) fn new(token: u64, ops_on_worker: Option<u32>) -> Self {
        Self {
            token,
            ops_on_worker,
            run: 0,
            base: 0,
            slots: VecDeque::new(),
            total: None,
            resolved: 0,
            first_failed: None,
            unsent: 0,
            unsent_bytes: 0,
            sent_bytes: 0,
            streamed: false,
            open: true,
            removed: false,
        }
    }

    /// Returns the outcome at an index without a chunk. A split of unknown length ends at its first error, so a
    /// consumer that resumes behind it (another worker had sent that far) gets the error and does not wait.
    pub(super) fn ended_before(&self, index: u64) -> ReadOutcome {
        let Some(first) = self.first_failed.filter(|&f| self.total.is_none() && f < index) else {
            return ReadOutcome::NotYet;
        };
        match first.checked_sub(self.base).and_then(|place| self.slots.get(place as usize)) {
            Some(Slot::Failed(error)) => ReadOutcome::Failed(error.clone()),
            _ => ReadOutcome::Dropped,
        }
    }

    /// Fills the slot at `index`; returns false when it was filled before, or lies before the first slot.
    pub(super) fn resolve(&mut self, index: u64, slot: Slot) -> bool {
        let Some(place) = index.checked_sub(self.base).map(|p| p as usize) else { return false };
        while self.slots.len() <= place {
            self.slots.push_back(Slot::Waiting);
        }
        if !matches!(self.slots[place], Slot::Waiting) {
            return false;
        }
        self.slots[place] = slot;
        self.resolved += 1;
        true
    }
}
