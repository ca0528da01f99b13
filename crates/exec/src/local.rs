//! The parallel, ordered, bounded iterator in this process.
//!
//! Threads take morsels in order, run the whole fused chain on each, and put the chunks into the morsel's slot; the
//! consumer empties the slots in order. There is no queue for each op, and nothing to tune. Threads without a morsel, and
//! those whose morsel is not the oldest or whose slot is full, help with the rows of the oldest (see `crew`). Bounds: at most
//! `threads + SLOTS_AHEAD` slots (of windows [`WINDOWS_MAX`]), [`SLOT_CHUNKS`] chunks in the slot of a source block, [`READY_BYTES_MAX`] in all.
//! Invariant: the first slot always has a thread at work on it or is done, so nothing waits for ever.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_core::{ConsumerIndex, Epoch, Error, ErrorKind, Ordinal, Result};
use forebay_data::Chunk;
use forebay_plan::Morsel;

use crate::budget::{Budget, Lost};
use crate::crew::Crew;
use crate::delivery::{Delivery, Position};
use crate::executable::{Asked, Executable};
use crate::isolate::Known;
use crate::merge::Merge;
use crate::work::Scratch;

/// Morsels that may be done or under way beyond one for each thread.
const SLOTS_AHEAD: usize = 2;
/// Windows of a shuffle whose rows are not counted that are in memory at once: all threads work on the chunks of one.
const WINDOWS_MAX: usize = 3;
/// Chunks that wait for the user may take this before no new morsel is begun.
const READY_BYTES_MAX: usize = 128 << 20;
/// Chunks that a slot keeps before its thread waits.
const SLOT_CHUNKS: usize = 16;
/// How often a waiting `next` asks whether it should go on.
const POLL: Duration = Duration::from_millis(50);

/// How to iterate.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Threads that compute. 0 is one for each core.
    pub threads: usize,
    /// The epoch to end before. `None` is never.
    pub end_epoch: Option<u64>,
    /// Which of the readers this is.
    pub consumer: ConsumerIndex,
    /// Where to begin.
    pub from: Position,
    /// How many samples may be left out, where the pipeline leaves out those that fail.
    pub budget: Budget,
    /// Samples that an earlier run left out and this one must, too.
    pub known: Known,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            end_epoch: Some(1),
            consumer: ConsumerIndex(0),
            from: Position::default(),
            budget: Budget::default(),
            known: Known::default(),
        }
    }
}

/// One morsel to compute, and what follows it.
#[derive(Debug, Clone, Copy)]
struct Task {
    epoch: u64,
    split: u64,
    /// The index in its split of the first chunk that it gives.
    chunk: u64,
    morsel: Morsel,
}

struct Slot {
    task: Task,
    chunks: VecDeque<Chunk>,
    taken: u64,
    outcome: Option<Result<()>>,
}

/// Walks the tasks of all epochs in order.
struct Cursor {
    epoch: u64,
    split: u64,
    morsels: VecDeque<(u64, Morsel)>,
    end_epoch: Option<u64>,
}

struct State {
    cursor: Cursor,
    slots: VecDeque<Slot>,
    /// The number of the first slot, counted from the start of the stream.
    base: u64,
    slots_max: usize,
    stop: bool,
}

struct Shared {
    executable: Arc<Executable>,
    consumer: ConsumerIndex,
    known: Known,
    state: Mutex<State>,
    /// Told when there is room for work.
    room: Condvar,
    /// Told when the first slot has something new.
    news: Condvar,
    crew: Arc<Crew>,
}

/// An iterator over a pipeline in this process. Dropping it stops and joins its threads.
pub struct LocalStream {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    merge: Merge,
    /// The epoch that the merge is in.
    epoch: u64,
    from: Position,
    ended: Option<Option<Error>>,
}

impl LocalStream {
    /// Starts computing.
    ///
    /// # Errors
    /// Internal when no thread can be started; whatever preparing the tail gives.
    pub fn start(executable: Arc<Executable>, options: LocalOptions) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if options.threads == 0 { cores } else { options.threads };
        // Whoever begins with a later epoch has read the earlier ones.
        executable.expect(options.end_epoch, options.from.epoch);
        let mut merge = Merge::new(executable.clone(), options.consumer, &options.from)?;
        merge.set_budget(options.budget);
        merge.set_known(options.known.clone());
        let from = options.from;
        let mut cursor =
            Cursor { epoch: from.epoch, split: from.split, morsels: VecDeque::new(), end_epoch: options.end_epoch };
        cursor.skip(&executable, options.consumer, from.chunk);
        let ahead = executable.stages().prefetch.unwrap_or(SLOTS_AHEAD);
        let slots_max = if executable.plan().lane_layout().is_some() { WINDOWS_MAX } else { threads + ahead };
        let state = State { cursor, slots: VecDeque::new(), base: 0, slots_max, stop: false };
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            executable,
            consumer: options.consumer,
            known: options.known,
            state: Mutex::new(state),
            room: Condvar::new(),
            news: Condvar::new(),
            crew: Arc::new(Crew::new(wake(shared.clone()))),
        });
        let spawn = |i| {
            let shared = shared.clone();
            std::thread::Builder::new().name(format!("forebay-{i}")).spawn(move || shared.work())
        };
        let threads = (0..threads).map(spawn).collect::<std::io::Result<_>>()?;
        let epoch = from.epoch;
        Ok(Self { shared, threads, merge, epoch, from, ended: None })
    }

    /// Returns the next batch (or run of samples); `None` when the last epoch is over. Calls `poll` about every 50 ms
    /// while it waits, and ends with the error that `poll` returns.
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

    /// Says what is kept of the pipeline in this process, and why: see [`Executable::stats`].
    pub fn stats(&self) -> String {
        self.shared.executable.stats()
    }

    /// Returns the samples that were left out of what came since this was last asked for, in the order of the stream.
    pub fn take_losses(&mut self) -> Vec<Lost> {
        self.merge.take_losses()
    }

    fn advance(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        loop {
            if let Some(delivery) = self.merge.pop() {
                return Ok(Some(delivery));
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
                    if (self.epoch, split, index) >= (self.from.epoch, self.from.split, self.from.chunk) {
                        self.merge.push(split, index, chunk)?;
                    }
                }
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
        self.merge.end_epoch()
    }

    fn signal_stop(&self) {
        self.shared.lock().stop = true;
        self.shared.crew.stop();
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

enum Head {
    Chunk(u64, u64, Chunk),
    EpochEnds,
    StreamEnds,
}

impl Cursor {
    fn is_past_end(&self, epoch: u64) -> bool {
        self.end_epoch.is_some_and(|end| epoch >= end)
    }

    /// Leaves out the first `chunks` of the split that it stands at.
    fn skip(&mut self, executable: &Executable, consumer: ConsumerIndex, chunks: u64) {
        if chunks == 0 || self.is_past_end(self.epoch) {
            return;
        }
        self.fill(executable, consumer);
        if matches!(self.morsels.front(), Some((_, Morsel::Units { .. }))) {
            self.morsels.drain(..self.morsels.len().min(chunks as usize));
        }
    }

    fn fill(&mut self, executable: &Executable, consumer: ConsumerIndex) {
        let morsels = executable.plan().morsels(consumer, Ordinal(self.split));
        self.morsels = (0..).zip(morsels).collect();
        self.split += 1;
    }

    /// Returns the next task; `None` when there is none.
    fn next(&mut self, executable: &Executable, consumer: ConsumerIndex) -> Option<Task> {
        let mut empty_epochs = 0;
        while self.morsels.is_empty() {
            if self.is_past_end(self.epoch) || empty_epochs > 1 {
                return None;
            }
            let splits = executable.plan().num_splits(consumer);
            if splits.is_some_and(|n| self.split >= n) {
                empty_epochs += 1;
                (self.epoch, self.split) = (self.epoch + 1, 0);
            } else {
                self.fill(executable, consumer);
            }
        }
        let (chunk, morsel) = self.morsels.pop_front()?;
        Some(Task { epoch: self.epoch, split: self.split - 1, chunk, morsel })
    }
}

impl Shared {
    /// The state is plain data that is consistent between statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut scratch = Scratch::default();
        while let Some((number, task)) = self.take_task(&mut scratch) {
            scratch.share(&self.crew, number);
            let run = AssertUnwindSafe(|| self.run(number, task, &mut scratch));
            let outcome = catch_unwind(run).unwrap_or_else(|panic| Err(crate::panicked(&*panic)));
            let mut state = self.lock();
            if let Some(slot) = state.slot(number) {
                slot.outcome = Some(outcome);
                self.news.notify_one();
                self.room.notify_all();
            }
        }
    }

    /// Takes the next morsel; while there is none to take, or an earlier one is under way, helps with that.
    fn take_task(&self, scratch: &mut Scratch) -> Option<(u64, Task)> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if self.crew.has_work() {
                drop(state);
                self.crew.help(scratch);
                state = self.lock();
                continue;
            }
            if state.slots.len() < state.slots_max && state.ready_bytes() < READY_BYTES_MAX {
                let Some(task) = state.cursor.next(&self.executable, self.consumer) else {
                    self.news.notify_one();
                    if state.slots.iter().all(|s| s.outcome.is_some()) {
                        return None;
                    }
                    // No morsel is left, but those under way can be helped.
                    state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let number = state.base + state.slots.len() as u64;
                state.slots.push_back(Slot { task, chunks: VecDeque::new(), taken: 0, outcome: None });
                return Some((number, task));
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, number: u64, task: Task, scratch: &mut Scratch) -> Result<()> {
        let (epoch, consumer, ops) = (Epoch(task.epoch), self.consumer, self.executable.stop(None));
        let asked = Asked { epoch, consumer, morsel: task.morsel, known: &self.known, ops };
        let mut helping = Scratch::default();
        self.executable.morsel(&asked, scratch, &mut |chunk| {
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
                if self.crew.has_work() {
                    drop(state);
                    self.crew.help(&mut helping);
                    state = self.lock();
                    continue;
                }
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        })
    }

    /// Waits for what comes next in the stream.
    fn head(&self, epoch: u64, poll: &mut dyn FnMut() -> Result<()>) -> Result<Head> {
        let mut state = self.lock();
        loop {
            let ended = state.cursor.is_past_end(epoch) || state.cursor.has_ended(&self.executable, self.consumer);
            match state.slots.front_mut() {
                Some(slot) if slot.task.epoch > epoch => return Ok(Head::EpochEnds),
                Some(slot) => {
                    if let Some(chunk) = slot.chunks.pop_front() {
                        let index = slot.task.chunk + slot.taken;
                        slot.taken += 1;
                        let split = slot.task.split;
                        self.room.notify_all();
                        return Ok(Head::Chunk(split, index, chunk));
                    }
                    if let Some(outcome) = slot.outcome.take() {
                        outcome?;
                        state.slots.pop_front();
                        state.base += 1;
                        self.room.notify_all();
                        continue;
                    }
                }
                None if ended => return Ok(Head::StreamEnds),
                None => {}
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

    /// Leaves out what remains of an epoch.
    fn abandon(&self, epoch: u64) {
        let mut state = self.lock();
        while state.slots.front().is_some_and(|s| s.task.epoch <= epoch) {
            state.slots.pop_front();
            state.base += 1;
        }
        if state.cursor.epoch <= epoch {
            state.cursor.epoch = epoch + 1;
            state.cursor.split = 0;
            state.cursor.morsels.clear();
        }
        self.room.notify_all();
    }
}

impl Cursor {
    /// Says whether no task is left.
    fn has_ended(&self, executable: &Executable, consumer: ConsumerIndex) -> bool {
        let empty = executable.plan().num_splits(consumer) == Some(0);
        self.morsels.is_empty() && (self.is_past_end(self.epoch) || empty)
    }
}

impl State {
    fn ready_bytes(&self) -> usize {
        self.slots.iter().flat_map(|s| &s.chunks).map(Chunk::num_bytes).sum()
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let place = number.checked_sub(self.base)?;
        self.slots.get_mut(place as usize)
    }
}

/// Tells the threads that wait. They look for work with the state locked, so it is locked here: none can miss it.
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
