//! The output buffer of one leased split: its chunks in order, from the lease until its consumer has consumed it.
//!
//! A split of a known number of morsels is filled at any index and kept whole. A source block of unknown length is
//! filled in order: its thread waits once it is [`AHEAD_BYTES_MAX`] ahead of the consumer, and the oldest chunks that
//! were sent are dropped when those of all splits exceed [`SENT_BYTES_MAX`]. A consumer that requests a dropped chunk
//! makes the worker compute the split again from its start (a new *run*), which yields the same chunks. So does a
//! request for a chunk whose memory a consumer on this machine has.
//!
//! Invariant: chunks that an older run still puts are dropped.

mod state;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use forebay_core::{Epoch, Error, tracer};
use forebay_data::Chunk;
use forebay_exec::KnownSkips;
use tokio::sync::Notify;

use crate::lock::lock;
use crate::options::{AHEAD_BYTES_MAX, SENT_BYTES_MAX};
use crate::splits::chunk::ProducedChunk;
use crate::stats::WorkerStats;
pub(crate) use state::ReadOutcome;
use state::{BufferState, Slot};

/// The identity of a split. The order of the fields makes the splits that one consumer has consumed a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SplitKey {
    pub(crate) job: u64,
    pub(crate) consumer: u32,
    pub(crate) epoch: u64,
    pub(crate) ordinal: u64,
}

/// See the module's documentation.
pub(crate) struct SplitBuffer {
    pub(crate) key: SplitKey,
    /// When it was leased, by the tracer's clock; 0 if no consumer recorded a trace.
    pub(crate) leased: u64,
    stats: Arc<WorkerStats>,
    state: Mutex<BufferState>,
    /// Rows that are left out without being computed: the ledger lists them as skipped.
    known: Mutex<Arc<KnownSkips>>,
    /// Notified of every change that a consumer can wait for.
    changed: Notify,
    /// Notified when the consumer has moved on.
    room: Condvar,
}

/// The result of putting a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    Kept,
    /// The consumer is too far behind: the thread must wait.
    Full,
    /// The run has ended: the thread must stop.
    Stale,
}

impl SplitBuffer {
    pub(crate) fn new(key: SplitKey, token: u64, ops_on_worker: Option<u32>, stats: Arc<WorkerStats>) -> Self {
        stats.open.fetch_add(1, Relaxed);
        Self {
            key,
            leased: if stats.is_traced() { tracer().now() } else { 0 },
            stats,
            state: Mutex::new(BufferState::new(token, ops_on_worker)),
            known: Mutex::default(),
            changed: Notify::new(),
            room: Condvar::new(),
        }
    }

    pub(crate) fn known(&self) -> Arc<KnownSkips> {
        lock(&self.known).clone()
    }

    /// Sets the rows that chunks computed from now on leave out.
    pub(crate) fn set_known(&self, known: Arc<KnownSkips>) {
        *lock(&self.known) = known;
    }

    /// Returns whether a consumer of this worker records a trace.
    pub(crate) fn is_traced(&self) -> bool {
        self.stats.is_traced()
    }

    pub(crate) fn token(&self) -> u64 {
        lock(&self.state).token
    }

    /// Accepts a new lease of the same split. Its chunks stay valid for any placement boundary.
    pub(crate) fn set_lease(&self, token: u64, ops_on_worker: Option<u32>) {
        let mut state = lock(&self.state);
        (state.token, state.ops_on_worker) = (token, ops_on_worker);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the number of row ops to run on chunks computed now; `None` is the default boundary.
    pub(crate) fn ops_on_worker(&self) -> Option<u32> {
        lock(&self.state).ops_on_worker
    }

    /// Returns whether the split occupies a slot: it waits to be computed, or is being computed.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.state).open
    }

    /// Returns whether the split ended in an error.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.state).first_failed.is_some()
    }

    pub(crate) fn run(&self) -> u64 {
        lock(&self.state).run
    }

    /// Returns whether `run` is not the current run any more, or the lease has ended: its chunks would be dropped.
    pub(crate) fn is_stale(&self, run: u64) -> bool {
        let state = lock(&self.state);
        state.removed || state.run != run
    }

    /// Returns the first error before `index`: chunks after it need not be computed.
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

    /// Counts the time that a thread has computed on the split.
    pub(crate) fn count_time(&self, compute: Duration) {
        self.stats.spent.add(self.key.job, compute, 0);
        self.stats.busy_us.fetch_add(compute.as_micros() as u64, Relaxed);
    }

    /// Returns whether a chunk at this index would be kept.
    pub(crate) fn wants(&self, index: u64) -> bool {
        index >= lock(&self.state).base
    }

    /// Puts a chunk at its index. `bounded` is for chunks that are put in order, by a thread that can wait.
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

    /// Puts an error at the index of a chunk.
    pub(crate) fn fail(&self, run: u64, index: u64, error: Error) {
        let mut state = lock(&self.state);
        if !state.removed && state.run == run {
            state.resolve(index, Slot::Failed(error));
            state.first_failed = Some(state.first_failed.map_or(index, |f| f.min(index)));
            self.after_change(&mut state);
        }
    }

    /// Declares that the number of chunks is known at the end only: they are put in order, and the oldest may be
    /// dropped.
    pub(crate) fn set_streamed(&self) {
        lock(&self.state).streamed = true;
    }

    /// Sets the number of chunks.
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

    /// Waits until the consumer has moved on; meanwhile the split does not occupy a slot. Returns false when the run is
    /// stale.
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

    /// Returns the state of `index` for the consumer with this token, and counts a chunk as sent. With `take`, the
    /// chunk's memory becomes the consumer's.
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
        // Otherwise a thread would wait for room while the consumer waits for a later chunk.
        self.advance(&mut state, index);
        let place = index.saturating_sub(state.base) as usize;
        match state.slots.get(place) {
            // This is a second request, so no consumer has the chunk: a sample that failed by accident gets another
            // try.
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

    /// Returns whether a chunk lacks a sample that failed by accident and that was not in the ledger when the lease was
    /// granted.
    fn lacks_by_accident(&self, chunk: &Chunk) -> bool {
        lock(&self.known).first_unknown(Epoch(self.key.epoch), chunk.losses()).is_some()
    }

    /// Hands the chunk's memory over to the consumer.
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

    /// Waits for a result at `index`.
    ///
    /// # Cancel safety
    /// Safe: a result is returned as soon as it is found.
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

    /// Counts all chunks before `index` as sent: the consumer requests them again only if its connection breaks.
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

    /// Drops all chunks, so that a new run can compute them again for a consumer that waits for `index`. Returns the
    /// new run.
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

    /// Ends the lease: consumers and threads stop, and the memory is freed.
    pub(crate) fn remove(&self) {
        let mut state = lock(&self.state);
        state.removed = true;
        self.release(&mut state);
        self.close(&mut state);
        self.changed.notify_waiters();
        self.room.notify_all();
    }

    /// Returns the bytes of the chunks that are in the buffer.
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

#[cfg(test)]
mod tests;
