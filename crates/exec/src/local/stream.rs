//! The parallel, ordered, bounded iterator in this process.
//!
//! Threads take morsels in order, run all fused ops on each, and put the chunks into the morsel's slot. The consumer
//! empties the slots in order; with `ordered=False`, any slot that has a chunk. There are no queues between ops, and
//! nothing to tune. Threads without a morsel, and threads whose morsel is not the oldest or whose slot is full, run
//! rows of the oldest (see `row_pool`).
//!
//! Bounds: at most `threads + SLOTS_AHEAD` slots (of windows [`STREAMED_AT_ONCE`]); [`SLOT_CHUNKS`] chunks in the slot
//! of a source block; the memory budget for all chunks that wait.
//!
//! Invariant: a thread works on the first slot, or the slot is done, so the stream always makes progress.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_core::{ChunkPlace, ConsumerIndex, Epoch, Error, ErrorKind, Result, Track, tracer};
use forebay_io::WindowAnnouncement;
use forebay_plan::STREAMED_AT_ONCE;

use super::cursor::{Cursor, Task};
use super::options::LocalOptions;
use super::slots::{Head, State};
use crate::executable::{Executable, MorselRequest};
use crate::ops::scratch::Scratch;
use crate::panic::panicked;
use crate::profile::span_log::SpanLog;
use crate::skip::known_skips::KnownSkips;
use crate::skip::skip_log::SkippedSample;
use crate::tail::delivery::Delivery;
use crate::tail::merge::Merge;
use crate::threads::STACK_BYTES;
use crate::threads::row_pool::RowPool;

/// Morsels that may be done or in progress beyond one for each thread.
const SLOTS_AHEAD: usize = 2;
/// Chunks that a slot keeps before its thread waits.
const SLOT_CHUNKS: usize = 16;
/// How often a waiting `next` calls `poll`.
const POLL: Duration = Duration::from_millis(50);
/// Chunks without a row to deliver after which `next` calls `poll`, though it does not wait.
const CHUNKS_A_POLL: usize = 16;

struct Shared {
    executable: Arc<Executable>,
    consumer: ConsumerIndex,
    known_skips: KnownSkips,
    state: Mutex<State>,
    /// Notified when there is room for work.
    room: Condvar,
    /// Notified when the first slot has changed.
    news: Condvar,
    pool: Arc<RowPool>,
    /// The number of the stream in traces.
    stream: u64,
}

/// An iterator over a pipeline in this process. Dropping it stops and joins its threads.
pub struct LocalStream {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    merge: Merge,
    /// The epoch that the merge is in.
    epoch: u64,
    until_empty: bool,
    /// Whether a row of the epoch was delivered, and whether the last epoch had none.
    had_row: bool,
    was_empty: bool,
    ended: Option<Option<Error>>,
}

impl LocalStream {
    /// Starts computing.
    ///
    /// # Errors
    /// Internal when no thread can be started; any error of preparing the tail.
    pub fn start(executable: Arc<Executable>, options: LocalOptions) -> Result<Self> {
        let threads = options.threads_of(executable.stages().graph.source());
        if !options.ordered {
            executable.check_any_order()?;
        }
        // A consumer that begins with a later epoch has read the earlier ones.
        executable.expect(options.end_epoch, options.from.epoch);
        let mut merge = Merge::new(executable.clone(), options.consumer, &options.from)?;
        merge.set_budget(options.budget);
        merge.set_known_skips(options.known_skips.clone());
        if options.end_epoch.is_none() && !options.until_empty {
            merge.set_endless_epochs();
        }
        let epoch = options.from.epoch;
        let (until_empty, had_row) = (options.until_empty, !options.from.is_start());
        let cursor = Cursor::new(options.from, options.end_epoch);
        let ahead = executable.stages().prefetch.unwrap_or(SLOTS_AHEAD);
        let slots_max =
            if executable.plan().lane_layout().is_some() { STREAMED_AT_ONCE as usize } else { threads + ahead };
        let state = State::new(cursor, slots_max, executable.memory().budget().ready(), options.ordered);
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            executable,
            consumer: options.consumer,
            known_skips: options.known_skips,
            state: Mutex::new(state),
            room: Condvar::new(),
            news: Condvar::new(),
            pool: Arc::new(RowPool::new(wake(shared.clone()))),
            stream: merge.stream(),
        });
        #[expect(clippy::disallowed_methods, reason = "the threads that compute, which end with the stream")]
        let spawn = |i| {
            let shared = shared.clone();
            let named = std::thread::Builder::new().name(format!("forebay-{i}"));
            named.stack_size(STACK_BYTES).spawn(move || shared.work())
        };
        let threads = (0..threads).map(spawn).collect::<std::io::Result<_>>()?;
        Ok(Self { shared, threads, merge, epoch, until_empty, had_row, was_empty: false, ended: None })
    }

    /// Returns the next batch (or run of samples); `None` when the last epoch is over. Calls `poll` about every 50 ms
    /// while it waits, and while chunks without a row come. Ends with the error that `poll` returns.
    ///
    /// # Errors
    /// The first error in the order of the stream; after it, the stream has ended with that error.
    pub fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        if let Some(ended) = &self.ended {
            return ended.clone().map_or(Ok(None), Err);
        }
        match self.advance(poll) {
            Ok(Some(delivery)) => Ok(Some(delivery)),
            Ok(None) => {
                self.ended = Some(None);
                Ok(None)
            }
            Err(e) => {
                self.ended = Some(Some(e.clone()));
                // Not joined here: a thread may be in a user's function that never returns.
                self.signal_stop();
                Err(e)
            }
        }
    }

    /// Returns the costs of ops and the state of caches, as JSON: see [`Executable::stats`].
    pub fn stats(&self) -> String {
        self.shared.executable.stats()
    }

    /// Returns the number of the stream in traces: see [`Merge::stream`].
    pub fn stream(&self) -> u64 {
        self.shared.stream
    }

    /// Returns the samples that were skipped since the last call, in the order of the stream.
    pub fn take_skipped(&mut self) -> Vec<SkippedSample> {
        self.merge.take_skipped()
    }

    fn advance(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        let mut taken = 0_usize;
        loop {
            taken += 1;
            if taken.is_multiple_of(CHUNKS_A_POLL) {
                poll()?;
            }
            if let Some(delivery) = self.merge.pop() {
                (self.had_row, self.was_empty) = (true, false);
                return Ok(Some(delivery));
            }
            if self.until_empty && self.was_empty {
                return Ok(None);
            }
            if self.merge.is_satisfied() {
                poll()?;
                self.shared.abandon(self.epoch);
                self.next_epoch()?;
                if self.shared.lock().cursor.is_past_end(self.epoch) {
                    return Ok(self.merge.pop());
                }
                continue;
            }
            match self.shared.head(self.epoch, poll)? {
                Head::Chunk(split, index, chunk) => {
                    if self.merge.wants(split, index) {
                        self.merge.push(split, index, chunk)?;
                    }
                }
                Head::SplitEnds(split, chunks) => self.merge.end_split(split, chunks),
                Head::EpochEnds => self.next_epoch()?,
                Head::StreamEnds => {
                    self.next_epoch()?;
                    return Ok(self.merge.pop());
                }
            }
        }
    }

    fn next_epoch(&mut self) -> Result<()> {
        self.epoch += 1;
        self.was_empty = !std::mem::take(&mut self.had_row);
        self.merge.end_epoch()
    }

    fn signal_stop(&self) {
        self.shared.lock().stop = true;
        self.shared.pool.stop();
        self.shared.room.notify_all();
    }

    fn stop(&mut self) {
        self.signal_stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for LocalStream {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// The state is plain data that is consistent between statements, so a panic in another thread does not corrupt it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut scratch = Scratch::default();
        while let Some((number, task, announced)) = self.take_task(&mut scratch) {
            scratch.share(&self.pool, 0, number);
            let Task { epoch, split, chunk, .. } = task;
            let log = SpanLog::if_traced(ChunkPlace { stream: self.stream, epoch, split, chunk }, || None);
            scratch.log_spans(log.clone());
            let run = AssertUnwindSafe(|| self.run(number, task, announced, log.as_deref(), &mut scratch));
            let outcome = catch_unwind(run).unwrap_or_else(|panic| Err(panicked(&*panic)));
            let mut state = self.lock();
            if let Some(slot) = state.slot(number) {
                slot.outcome = Some(outcome);
                self.news.notify_one();
                self.room.notify_all();
            }
        }
    }

    /// Takes the next morsel; while there is none, runs rows of morsels in progress.
    fn take_task(&self, scratch: &mut Scratch) -> Option<(u64, Task, Option<WindowAnnouncement>)> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if self.pool.has_work() {
                drop(state);
                let began = tracer().is_on().then(|| tracer().now());
                self.pool.run_shared(scratch);
                began.iter().for_each(|began| tracer().ended("rows", Track::of_this_thread(), *began, None));
                state = self.lock();
                continue;
            }
            if state.has_room() {
                let Some(task) = state.cursor.next(&self.executable, self.consumer) else {
                    self.news.notify_one();
                    if state.is_done() {
                        return None;
                    }
                    // No morsel is left, but rows of those in progress may be.
                    state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let announced = self.executable.announce(Epoch(task.epoch), task.morsel);
                return Some((state.begin(task), task, announced));
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(
        &self,
        number: u64,
        task: Task,
        mut announced: Option<WindowAnnouncement>,
        log: Option<&SpanLog>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (epoch, consumer, ops) = (Epoch(task.epoch), self.consumer, self.executable.resolve_boundary(None));
        let (morsel, known_skips) = (task.morsel, &self.known_skips);
        let request = MorselRequest { epoch, consumer, morsel, first_chunk: task.first_of_block(), known_skips, ops };
        let mut helping = Scratch::default();
        self.executable.morsel(&request, scratch, &mut |chunk| {
            // Chunks may come from a cache, and wait below for room, so the announcement must end here.
            announced.take();
            // Before the chunk can be merged, so that its batch has all spans.
            log.iter().for_each(|log| log.end("morsel"));
            let mut state = self.lock();
            loop {
                if state.stop {
                    return Err(stopped());
                }
                let Some(slot) = state.slot(number) else { return Err(stopped()) };
                if slot.chunks.len() < SLOT_CHUNKS {
                    slot.chunks.push_back(chunk);
                    self.news.notify_one();
                    return Ok(());
                }
                if self.pool.has_work() {
                    drop(state);
                    self.pool.run_shared(&mut helping);
                    state = self.lock();
                    continue;
                }
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        })
    }

    /// Waits for the next item of the stream.
    fn head(&self, epoch: u64, poll: &mut dyn FnMut() -> Result<()>) -> Result<Head> {
        let mut state = self.lock();
        loop {
            let head = state.take(epoch)?;
            // Also without an item: a slot may have been removed.
            self.room.notify_all();
            if let Some(head) = head {
                return Ok(head);
            }
            let ended = state.cursor.is_past_end(epoch) || state.cursor.has_ended(&self.executable, self.consumer);
            if ended && state.is_empty() {
                return Ok(Head::StreamEnds);
            }
            let (guard, timeout) = self.news.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                drop(state);
                poll()?;
                state = self.lock();
            }
        }
    }

    /// Skips the rest of an epoch.
    fn abandon(&self, epoch: u64) {
        self.lock().abandon(epoch);
        self.room.notify_all();
    }
}

/// Wakes the threads that wait. They look for work with the state locked, so it is locked here, and no thread misses
/// it.
fn wake(shared: Weak<Shared>) -> impl Fn() + Send + Sync {
    move || {
        if let Some(shared) = shared.upgrade() {
            drop(shared.lock());
            shared.room.notify_all();
        }
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Closed, "the iterator was closed")
}
