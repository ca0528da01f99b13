//! One consumer of a job: the same deliveries, in the same order, as a stream in this process.
//!
//! `next` runs on the user's thread: it takes chunks from the reorder buffer, merges them, and returns the next
//! delivery. `progress` decides the next delivery and the acknowledgements; `waiting` waits for a chunk.

#![expect(clippy::disallowed_methods, reason = "a stream that ends waits for the dispatcher, within a bound")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::Memory;
use forebay_exec::{Delivery, Executable, Functions, KnownSkips, Merge, Position, SkippedSample};
use forebay_plan::{Ending, Floor};
use forebay_proto::NO_JOB;
use tokio::task::JoinHandle;

use crate::fetch::fetcher::Fetcher;
use crate::fetch::workers::Workers;
use crate::job::OpenedJob;
use crate::options::{POLL, StreamOptions, WINDOW_MAX, choose_window};
use crate::runtime::{Owner, runtime};
use crate::session::driver::{FINISH_MAX, SessionDriver};
use crate::session::protocol::ConsumerProtocol;
use crate::session::skip_reports::message_of;
use crate::stream::liveness::LivenessCheck;
use crate::stream::progress::{ConsumerProgress, Next};
use crate::stream::reorder_buffer::{Head, ReorderBuffer, SplitKey};
use crate::stream::shared::{SessionState, StreamShared};
use crate::stream::step_sync::StepSync;

/// Chunks that are merged ahead for each delivery, if consumers end epochs together.
const AHEAD_MAX: usize = 2;
/// Chunks without a row to deliver after which `next` calls `poll`, though it does not wait.
const HEADS_A_POLL: usize = 16;

/// An iterator over the deliveries of one consumer of a job. Dropping it closes its connections at once.
pub struct ServiceStream {
    pub(super) shared: Arc<StreamShared>,
    pub(super) progress: ConsumerProgress,
    /// Runs the ops of this process.
    executable: Arc<Executable>,
    /// The number of the stream in traces.
    number: u64,
    pub(super) job: String,
    pub(super) address: String,
    pub(super) deadline: Duration,
    pub(super) patience: Duration,
    pub(super) rank_timeout: Duration,
    /// Warns the user of a long wait; `None` after the first warning.
    pub(super) warn: Option<fn(&Error)>,
    /// Checks whether a late batch can still come.
    pub(super) liveness: LivenessCheck,
    until_empty: bool,
    /// Whether the job has more epochs than this stream.
    job_goes_on: bool,
    /// Whether a row of the epoch was delivered, and whether the last epoch had none.
    had_row: bool,
    was_empty: bool,
    ended: Option<Option<Error>>,
    /// Skipped samples that the user has not taken yet.
    lost: Vec<SkippedSample>,
    task: Option<JoinHandle<()>>,
    owner: Owner,
}

impl ServiceStream {
    /// Starts reading. Returns at once: the first `next` waits.
    ///
    /// # Errors
    /// Invalid if the consumer, the window or the position is out of range for the job; the errors of preparing the
    /// tail's ops.
    pub fn start(job: &OpenedJob, functions: Arc<dyn Functions>, options: StreamOptions) -> Result<Self> {
        let consumers = job.consumers();
        let ConsumerIndex(consumer) = options.consumer;
        if consumer >= consumers {
            return Err(Error::invalid(format!(
                "consumer {consumer} of job {:?}: it has {consumers}, from 0",
                job.name()
            )));
        }
        if options.window.is_some_and(|w| w == 0 || w > WINDOW_MAX) {
            return Err(Error::invalid(format!("a window has 1 to {WINDOW_MAX} splits")));
        }
        let resume = options.from.is_some();
        let from = options.from.unwrap_or_default();
        let splits = job.plan().num_splits(options.consumer);
        if let Some(epochs) = job.epochs()
            && from.epoch > epochs
        {
            let (epoch, name) = (from.epoch, job.name());
            return Err(Error::invalid(format!("the saved state is in epoch {epoch}, and job {name:?} has {epochs}"))
                .hint("open a job with as many epochs as the saved one had, or more, under another name"));
        }
        if splits.is_some_and(|n| from.split > n) {
            let (split, name) = (from.split, job.name());
            return Err(Error::invalid(format!(
                "the saved state is in split {split}, and job {name:?} has no such split"
            ))
            .hint("the saved state is of another job"));
        }
        let memory = Memory::reused().with_budget(options.memory);
        let executable = job.executable(functions, memory.clone())?;
        let at = SplitKey { epoch: from.epoch, ordinal: from.split };
        let mut buffer = ReorderBuffer::new(at, from.chunk).with_bytes_max(options.memory.arrived());
        if !options.ordered {
            executable.check_any_order()?;
            check_apart(job.ending())?;
            buffer = buffer.in_any_order();
        }
        let shared = Arc::new(StreamShared::new(buffer, options.local_worker.clone()));
        let mut merge = Merge::new(executable.clone(), options.consumer, &from)?;
        merge.set_budget(options.budget);
        merge.set_known_skips(KnownSkips::of(&options.known));
        let fetcher = Arc::new(Fetcher {
            shared: shared.clone(),
            workers: Workers::new(job.dispatcher.credentials.tls.clone(), options.local_worker),
            with_ids: job.stages().tail_needs_ids(),
            executable: executable.clone(),
            memory,
            job: job.id(),
            key: job.key(),
            consumer: options.consumer,
            stream: merge.stream(),
        });
        let window = options.window.unwrap_or_else(|| choose_window(job.plan(), executable.schema(), options.memory));
        let number = merge.stream();
        let end_epoch = job.epochs().into_iter().chain(options.end_epoch).min();
        let progress =
            ConsumerProgress::new(merge, &from, splits, end_epoch).with_ending(job.ending(), consumers, &from);
        shared.lock().steps = (job.ending() != Ending::Apart).then(|| StepSync::new(consumers, from.epoch));
        let lost = options.known.iter().map(message_of).collect();
        let dispatchers = job.dispatcher.addresses()?.len();
        let protocol = ConsumerProtocol::new(job.id(), consumer, window, resume, lost)
            .with_dispatchers(dispatchers)
            .with_job_name(job.name());
        let session = SessionDriver { dispatcher: job.dispatcher.clone(), fetcher, protocol };
        let task = runtime()?.spawn(session.run());
        Ok(Self {
            shared,
            progress,
            executable,
            number,
            job: job.name().to_owned(),
            address: job.dispatcher.address.clone(),
            deadline: options.deadline,
            patience: options.patience,
            rank_timeout: options.rank_timeout,
            warn: Some(options.warn),
            liveness: options.liveness,
            until_empty: options.until_empty,
            job_goes_on: end_epoch != job.epochs(),
            had_row: from != Position { epoch: from.epoch, ..Position::default() },
            was_empty: false,
            ended: None,
            lost: Vec::new(),
            task: Some(task),
            owner: Owner::this(),
        })
    }

    /// Returns the next batch (or run of samples); `None` after the last epoch. Calls `poll` about every 50 ms while it
    /// waits, and while chunks without a row come; an error of `poll` ends the stream.
    ///
    /// # Errors
    /// The first error in the order of the stream, after all deliveries before it; Unavailable if no dispatcher
    /// answered until the deadline, or if the service is known to have ended; Closed if the job was cancelled; Conflict
    /// if another process took the consumer. The error ends the stream; later calls return it again.
    pub fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        self.owner.check()?;
        if let Some(ended) = &self.ended {
            return ended.clone().map_or(Ok(None), Err);
        }
        let consumed = self.progress.consume();
        self.acknowledge(consumed);
        match self.advance(poll) {
            Ok(Some(delivery)) => {
                self.shared.lock().meter.deliver();
                Ok(Some(delivery))
            }
            Ok(None) => {
                let finished = self.finish(poll);
                self.end(finished.err())
            }
            Err(error) => self.end(Some(with_job_name(error, &self.job))),
        }
    }

    /// Ends the stream; later calls of `next` return the same.
    fn end(&mut self, error: Option<Error>) -> Result<Option<Delivery>> {
        self.ended = Some(error.clone());
        self.close();
        error.map_or(Ok(None), Err)
    }

    /// Returns the position after the last epoch, if consumers end epochs together: a resumed stream would otherwise
    /// need the others to find the end of the last epoch. `None` for other jobs.
    pub fn end_position(&self) -> Option<Position> {
        self.progress.shared_epoch().map(|epoch| Position { epoch, ..Position::default() })
    }

    /// Returns the costs of the ops that ran in this process: see [`Executable::stats`].
    pub fn stats(&self) -> String {
        self.executable.stats()
    }

    /// Returns the number of the stream in traces: see [`Merge::stream`].
    pub fn stream(&self) -> u64 {
        self.number
    }

    /// Returns the samples that were skipped since the last call, in the order of the stream.
    pub fn take_losses(&mut self) -> Vec<SkippedSample> {
        std::mem::take(&mut self.lost)
    }

    fn advance(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        let (mut ahead, mut taken) = (0, 0_usize);
        loop {
            taken += 1;
            if taken.is_multiple_of(HEADS_A_POLL) {
                poll()?;
            }
            if ahead < AHEAD_MAX && self.progress.has_room() {
                let head = self.shared.lock().pop_head();
                ahead += 1;
                if !matches!(head, Head::Empty) {
                    self.merge(head, poll)?;
                    continue;
                }
            }
            let floor = self.sync_steps();
            let next = self.progress.next(floor)?;
            if self.until_empty && self.was_empty && !matches!(next, Next::Delivery(_)) {
                return Ok(None);
            }
            match next {
                Next::Delivery(delivery) => {
                    (self.had_row, self.was_empty) = (true, false);
                    self.sync_steps();
                    return Ok(Some(*delivery));
                }
                Next::Finished => return Ok(None),
                Next::Head => {
                    let head = self.wait(poll, true, None)?;
                    self.merge(head, poll)?;
                }
                Next::WaitForOthers { is_starved } => {
                    let head = self.wait(poll, is_starved, Some(floor))?;
                    self.merge(head, poll)?;
                }
                Next::EpochEnd { ended, at } => {
                    self.report(poll)?;
                    self.was_empty = !std::mem::take(&mut self.had_row);
                    self.shared.update(|s| s.end_epoch(ended, at));
                    self.shared.room.notify_waiters();
                    if ended.is_some() {
                        self.shared.to_send.notify_one();
                        // A stream without end may need no splits at all: only `poll` can end it.
                        poll()?;
                    }
                }
            }
        }
    }

    /// Merges an item of the reorder buffer.
    fn merge(&mut self, head: Head, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.shared.room.notify_waiters();
        let merged = self.progress.merge(head);
        self.report(poll)?;
        merged
    }

    /// If consumers end epochs together, sends this one's step count if that is due. Returns the floor of all.
    fn sync_steps(&mut self) -> Floor {
        self.progress.find_end();
        let Some((epoch, count, given)) = self.progress.step_counts() else { return Floor::default() };
        let mut state = self.shared.lock();
        let Some(steps) = &mut state.steps else { return Floor::default() };
        let floor = steps.set(epoch, count, given);
        if steps.is_due(self.shared.now()) {
            self.shared.to_send.notify_one();
        }
        floor
    }

    /// Reports the samples that were skipped, and waits until the stream may go on without them.
    fn report(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let lost = self.progress.take_losses();
        if lost.is_empty() {
            return Ok(());
        }
        self.shared.lock().report(&lost);
        self.lost.extend(lost);
        self.shared.to_send.notify_one();
        let since = self.shared.now();
        loop {
            let state = self.shared.lock();
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            if state.are_skips_durable() {
                return Ok(());
            }
            if state.is_dispatcher_lost(self.shared.now(), self.deadline) {
                return Err(self.unanswered());
            }
            drop(self.shared.wait(state, POLL));
            if self.shared.now() - since >= self.patience {
                self.liveness.run(self.shared.now(), poll)?;
            }
            poll()?;
        }
    }

    pub(super) fn acknowledge(&self, split: Option<SplitKey>) {
        if split.is_some() {
            self.shared.lock().outgoing.ack = split;
            self.shared.to_send.notify_one();
        }
    }

    /// Sends the last message and waits until the dispatcher has it: one round trip if there is a session. If the
    /// message is lost, the dispatcher sees a consumer that went away.
    fn finish(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let consumed = self.progress.finish();
        {
            let outgoing = &mut self.shared.lock().outgoing;
            (outgoing.ack, outgoing.finish) = (Some(consumed), true);
        }
        self.shared.to_send.notify_one();
        let end = Instant::now() + FINISH_MAX;
        loop {
            let state = self.shared.lock();
            if matches!(state.session, SessionState::Finished) || state.fatal.is_some() || Instant::now() >= end {
                return Ok(());
            }
            drop(self.shared.wait(state, POLL));
            poll()?;
        }
    }

    /// Ends the session, the fetches, and a trace that is recorded.
    fn close(&mut self) {
        let Some(task) = self.task.take() else { return };
        if self.owner.is_here() {
            task.abort();
            // Behind an epoch of several, the same process reads on, and its trace goes on.
            if !(self.job_goes_on && matches!(self.ended, Some(None))) {
                self.shared.recordings.end();
            }
        } else {
            // The parent's runtime does not exist in a forked child: its tasks must not be touched.
            std::mem::forget(task);
        }
    }
}

/// Refuses consumers that end epochs together: their saved state is one step behind, so the step that is delivered
/// again must be the same one.
fn check_apart(ending: Ending) -> Result<()> {
    if ending == Ending::Apart {
        return Ok(());
    }
    Err(Error::invalid(
        "ordered=False cannot be used when consumers end epochs together: how many batches each gets is not known in advance",
    )
    .hint("with even=False each consumer ends by itself"))
}

/// Adds the job's name to the dispatcher's error for an unknown job: the dispatcher got only the job's number.
fn with_job_name(error: Error, job: &str) -> Error {
    if error.kind() != ErrorKind::NotFound || error.get(NO_JOB).is_none() {
        return error;
    }
    let known = Error::new(ErrorKind::NotFound, format!("the dispatcher does not know job {job:?} any more"));
    let context = error.context().iter().filter(|(key, _)| key != NO_JOB);
    context.fold(known, |known, (key, value)| known.with(key, value))
}

impl Drop for ServiceStream {
    fn drop(&mut self) {
        self.close();
    }
}
