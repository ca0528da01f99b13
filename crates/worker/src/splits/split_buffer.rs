//! One split that is held: its chunks in order, from the lease until its consumer has consumed it.
//!
//! A split of a known number of morsels is filled at any place and kept whole. A source block of unknown length is
//! filled in order: its thread waits when it is [`AHEAD_BYTES_MAX`] ahead of the reader, and the oldest chunks that
//! were sent go when those of all splits exceed [`SENT_BYTES_MAX`]. A reader that asks for one that went makes the
//! split be computed again from its start (a new *run*), which gives the same chunks; so does one that asks for a chunk
//! that was given away to a reader on this machine.
//! Invariant: what an older run still puts is dropped.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use forebay_core::{Epoch, Error};
use forebay_data::Chunk;
use forebay_exec::Known;
use tokio::sync::Notify;

use crate::lock::lock;
use crate::options::{AHEAD_BYTES_MAX, SENT_BYTES_MAX};
use crate::splits::chunk::ProducedChunk;
use crate::stats::WorkerStats;

/// Names a split. Ordered so that what one consumer has consumed is a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SplitKey {
    pub(crate) job: u64,
    pub(crate) consumer: u32,
    pub(crate) epoch: u64,
    pub(crate) ordinal: u64,
}

enum Slot {
    Waiting,
    Ready(ProducedChunk),
    Failed(Error),
    /// A reader on this machine has it.
    GivenAway,
}

struct BufferState {
    token: u64,
    /// How many row ops run on what is computed from now on, as the lease says.
    ops_on_worker: Option<u32>,
    /// Rises when the split is computed again.
    run: u64,
    /// The index of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    /// The number of chunks, once known.
    total: Option<u64>,
    /// Chunks that are ready or failed.
    resolved: u64,
    first_failed: Option<u64>,
    /// The first chunk that no reader has taken, and the bytes of those from there on.
    unsent: u64,
    unsent_bytes: usize,
    sent_bytes: usize,
    /// Whether it is filled in order and may lose its oldest chunks.
    streamed: bool,
    open: bool,
    removed: bool,
}

/// A split that is held.
pub(crate) struct SplitBuffer {
    pub(crate) key: SplitKey,
    stats: Arc<WorkerStats>,
    state: Mutex<BufferState>,
    /// Rows that are left out whether they fail or not.
    known: Mutex<Arc<Known>>,
    /// Told of everything that a reader can wait for.
    changed: Notify,
    /// Told when a reader has moved on.
    room: Condvar,
}

/// What a reader finds at an index.
pub(crate) enum ReadOutcome {
    /// The chunk.
    Chunk(ProducedChunk),
    /// The split failed here.
    Failed(Error),
    /// The split ends here.
    End,
    /// It is being computed.
    NotYet,
    /// It was sent and dropped, or given away: compute the split again.
    Dropped,
    /// The lease is not this worker's any more.
    NotHeld,
    /// The split has fewer chunks.
    Beyond(u64),
}

/// What became of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    Kept,
    /// The reader is too far behind: wait.
    Full,
    /// Nobody wants it: stop.
    Stale,
}

impl SplitBuffer {
    pub(crate) fn new(key: SplitKey, token: u64, ops_on_worker: Option<u32>, stats: Arc<WorkerStats>) -> Self {
        stats.open.fetch_add(1, Relaxed);
        let state = BufferState {
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
        };
        Self {
            key,
            stats,
            state: Mutex::new(state),
            known: Mutex::default(),
            changed: Notify::new(),
            room: Condvar::new(),
        }
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        lock(&self.known).clone()
    }

    /// What is computed from now on leaves these rows out.
    pub(crate) fn set_known(&self, known: Arc<Known>) {
        *lock(&self.known) = known;
    }

    pub(crate) fn token(&self) -> u64 {
        lock(&self.state).token
    }

    /// The lease was granted again, to the same worker: the chunks are still right, wherever they are cut.
    pub(crate) fn set_lease(&self, token: u64, ops_on_worker: Option<u32>) {
        let mut state = lock(&self.state);
        (state.token, state.ops_on_worker) = (token, ops_on_worker);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns how many row ops are to run on what is computed now.
    pub(crate) fn ops_on_worker(&self) -> Option<u32> {
        lock(&self.state).ops_on_worker
    }

    /// Says whether it waits to be computed, or is: whether it takes a place.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.state).open
    }

    /// Says whether the split ended in an error.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.state).first_failed.is_some()
    }

    pub(crate) fn run(&self) -> u64 {
        lock(&self.state).run
    }

    /// Says whether nobody waits for what this run computes.
    pub(crate) fn is_stale(&self, run: u64) -> bool {
        let state = lock(&self.state);
        state.removed || state.run != run
    }

    /// Returns the error at or before `index`, after which nothing is worth computing.
    pub(crate) fn failed_before(&self, index: u64) -> Option<Error> {
        let state = lock(&self.state);
        let first = state.first_failed.filter(|&f| f < index)?;
        match state.slots.get(first.saturating_sub(state.base) as usize) {
            Some(Slot::Failed(e)) => Some(e.clone()),
            _ => None,
        }
    }

    /// Counts rows that were computed.
    pub(crate) fn count_rows(&self, rows: usize) {
        self.stats.rows_done.fetch_add(rows as u64, Relaxed);
        self.stats.spent.add(self.key.job, Duration::ZERO, rows as u64);
    }

    /// Counts rows that another job had computed.
    pub(crate) fn count_shared(&self, rows: usize) {
        self.count_rows(rows);
        self.stats.rows_shared.fetch_add(rows as u64, Relaxed);
    }

    /// A thread has computed on it for so long.
    pub(crate) fn count_time(&self, compute: Duration) {
        self.stats.spent.add(self.key.job, compute, 0);
        self.stats.busy_us.fetch_add(compute.as_micros() as u64, Relaxed);
    }

    /// Says whether a chunk would be dropped at once.
    pub(crate) fn wants(&self, index: u64) -> bool {
        index >= lock(&self.state).base
    }

    /// Puts a chunk in its place. `bounded` is for what is put in order, by a thread that can wait.
    pub(crate) fn put(&self, run: u64, index: u64, produced: &ProducedChunk, bounded: bool) -> PutOutcome {
        let mut state = lock(&self.state);
        if state.removed || state.run != run {
            return PutOutcome::Stale;
        }
        if bounded && state.unsent_bytes >= AHEAD_BYTES_MAX {
            return PutOutcome::Full;
        }
        let bytes = produced.chunk.num_bytes();
        if state.resolve(index, Slot::Ready(produced.clone())) {
            self.stats.bytes.fetch_add(bytes, Relaxed);
            if index < state.unsent {
                self.add_sent(&mut state, bytes);
            } else {
                state.unsent_bytes += bytes;
            }
        }
        self.after_change(&mut state);
        PutOutcome::Kept
    }

    /// Puts an error in the place of a chunk.
    pub(crate) fn fail(&self, run: u64, index: u64, error: Error) {
        let mut state = lock(&self.state);
        if !state.removed && state.run == run {
            state.resolve(index, Slot::Failed(error));
            state.first_failed = Some(state.first_failed.map_or(index, |f| f.min(index)));
            self.after_change(&mut state);
        }
    }

    /// The number of chunks will only be known at the end: they are put in order, and the oldest may go.
    pub(crate) fn set_streamed(&self) {
        lock(&self.state).streamed = true;
    }

    /// Says how many chunks there are.
    pub(crate) fn set_total(&self, run: u64, total: u64) {
        let mut state = lock(&self.state);
        if !state.removed && state.run == run {
            state.total = Some(total);
            self.after_change(&mut state);
        }
    }

    fn after_change(&self, state: &mut BufferState) {
        let complete =
            state.total.is_some_and(|t| state.resolved >= t) || (state.total.is_none() && state.first_failed.is_some());
        if complete && state.open {
            self.stats.splits_done.fetch_add(1, Relaxed);
            self.close(state);
        }
        self.changed.notify_waiters();
    }

    fn close(&self, state: &mut BufferState) {
        if std::mem::take(&mut state.open) {
            self.stats.open.fetch_sub(1, Relaxed);
        }
        self.stats.freed.notify_one();
    }

    /// Waits until the reader has moved on; the split does not take a place meanwhile. False when it is stale.
    pub(crate) fn wait_for_room(&self, run: u64) -> bool {
        let mut state = lock(&self.state);
        if state.run == run {
            self.close(&mut state);
        }
        while !state.removed && state.run == run && state.unsent_bytes >= AHEAD_BYTES_MAX {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let stale = state.removed || state.run != run;
        if !stale && !state.open {
            state.open = true;
            self.stats.open.fetch_add(1, Relaxed);
        }
        !stale
    }

    /// Returns what is at `index`, for the reader with this token, and counts a chunk as sent; with `take`, gives it away.
    pub(crate) fn try_read(&self, token: u64, index: u64, take: bool) -> ReadOutcome {
        let mut state = lock(&self.state);
        if state.removed || state.token != token {
            return ReadOutcome::NotHeld;
        }
        if index < state.base {
            return ReadOutcome::Dropped;
        }
        if let Some(total) = state.total.filter(|&t| index >= t) {
            return if index == total { ReadOutcome::End } else { ReadOutcome::Beyond(total) };
        }
        // A thread that waits for room must not wait for a reader that waits for a later chunk.
        self.advance(&mut state, index);
        let place = index.saturating_sub(state.base) as usize;
        match state.slots.get(place) {
            // A reader asks a second time, so nobody has the chunk: the sample that failed by accident is tried again.
            Some(Slot::Ready(produced)) if index < state.unsent && self.lacks_by_accident(&produced.chunk) => {
                ReadOutcome::Dropped
            }
            Some(Slot::Ready(produced)) => {
                let produced = produced.clone();
                if take {
                    self.give_away(&mut state, place, index);
                }
                self.advance(&mut state, index + 1);
                ReadOutcome::Chunk(produced)
            }
            Some(Slot::Failed(error)) => ReadOutcome::Failed(error.clone()),
            Some(Slot::GivenAway) => ReadOutcome::Dropped,
            Some(Slot::Waiting) | None => state.ended_before(index),
        }
    }

    /// Says whether a chunk lacks a sample that failed by accident and that the ledger did not have when the lease was granted.
    fn lacks_by_accident(&self, chunk: &Chunk) -> bool {
        lock(&self.known).first_unknown(Epoch(self.key.epoch), chunk.losses()).is_some()
    }

    /// The chunk's memory is the reader's from now on.
    fn give_away(&self, state: &mut BufferState, place: usize, index: u64) {
        let bytes = std::mem::replace(&mut state.slots[place], Slot::GivenAway).num_bytes();
        self.stats.bytes.fetch_sub(bytes, Relaxed);
        self.stats.freed.notify_one();
        if index >= state.unsent {
            state.unsent_bytes -= bytes;
            return;
        }
        state.sent_bytes -= bytes;
        if state.streamed {
            self.stats.sent.fetch_sub(bytes, Relaxed);
        }
    }

    /// Waits for what is at `index`.
    ///
    /// # Cancel safety
    /// Safe: what is found is returned without waiting again.
    pub(crate) async fn read(&self, token: u64, index: u64, take: bool) -> ReadOutcome {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.try_read(token, index, take) {
                ReadOutcome::NotYet => changed.await,
                outcome => return outcome,
            }
        }
    }

    /// A reader wants nothing before `index` any more, unless its connection breaks.
    fn advance(&self, state: &mut BufferState, index: u64) {
        if index <= state.unsent {
            return;
        }
        let from = state.unsent.saturating_sub(state.base) as usize;
        let passed = state.slots.iter().skip(from).take((index - state.unsent) as usize);
        let bytes: usize = passed.map(Slot::num_bytes).sum();
        state.unsent = index;
        state.unsent_bytes -= bytes;
        self.add_sent(state, bytes);
        self.room.notify_all();
    }

    fn add_sent(&self, state: &mut BufferState, bytes: usize) {
        state.sent_bytes += bytes;
        if !state.streamed {
            return;
        }
        self.stats.sent.fetch_add(bytes, Relaxed);
        while state.base < state.unsent && self.stats.sent.load(Relaxed) > SENT_BYTES_MAX {
            let Some(slot) = state.slots.pop_front() else { break };
            state.base += 1;
            let bytes = slot.num_bytes();
            state.sent_bytes -= bytes;
            self.stats.sent.fetch_sub(bytes, Relaxed);
            self.stats.bytes.fetch_sub(bytes, Relaxed);
            self.stats.freed.notify_one();
        }
    }

    /// Forgets what was computed, to compute it again for a reader that wants it from `index` on. Returns the new run.
    pub(crate) fn rewind(&self, index: u64) -> u64 {
        let mut state = lock(&self.state);
        self.release(&mut state);
        state.run += 1;
        (state.base, state.unsent) = (index, index);
        (state.total, state.first_failed) = (None, None);
        state.resolved = index;
        if !state.removed && !state.open {
            state.open = true;
            self.stats.open.fetch_add(1, Relaxed);
        }
        self.changed.notify_waiters();
        self.room.notify_all();
        state.run
    }

    /// The lease has ended: readers and threads stop, and the memory is free.
    pub(crate) fn remove(&self) {
        let mut state = lock(&self.state);
        state.removed = true;
        self.release(&mut state);
        self.close(&mut state);
        self.changed.notify_waiters();
        self.room.notify_all();
    }

    /// Returns the bytes of the chunks that are here.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state).slots.iter().map(Slot::num_bytes).sum()
    }

    fn release(&self, state: &mut BufferState) {
        state.slots.clear();
        self.stats.bytes.fetch_sub(state.unsent_bytes + state.sent_bytes, Relaxed);
        if state.streamed {
            self.stats.sent.fetch_sub(state.sent_bytes, Relaxed);
        }
        (state.unsent_bytes, state.sent_bytes) = (0, 0);
    }
}

impl Slot {
    fn num_bytes(&self) -> usize {
        if let Slot::Ready(produced) = self { produced.chunk.num_bytes() } else { 0 }
    }
}

impl BufferState {
    /// What a reader finds at an index that is empty. A split of unknown length that failed goes no further: who asks
    /// for a later chunk, which another worker did not send any more, must not wait for it.
    fn ended_before(&self, index: u64) -> ReadOutcome {
        let Some(first) = self.first_failed.filter(|&f| self.total.is_none() && f < index) else {
            return ReadOutcome::NotYet;
        };
        match first.checked_sub(self.base).and_then(|place| self.slots.get(place as usize)) {
            Some(Slot::Failed(error)) => ReadOutcome::Failed(error.clone()),
            _ => ReadOutcome::Dropped,
        }
    }

    /// Fills the slot at `index`; false when it was filled before, or has removed.
    fn resolve(&mut self, index: u64, slot: Slot) -> bool {
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

#[cfg(test)]
mod tests;
