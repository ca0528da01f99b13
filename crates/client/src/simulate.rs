//! The interface for the simulation: the real reorder buffer, session protocol, fetch attempts and progress
//! of a consumer.
//!
//! Not part of the public interface: only `crates/sim` uses it. It makes no decisions of its own.

mod borrower;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{ConsumerIndex, Error, Result, Ticks};
use forebay_data::Chunk;
use forebay_exec::{Budget, Delivery, Executable, KnownSkips, Merge, Position, SkippedSample};
use forebay_plan::{Ending, Floor};
use forebay_proto::consumer_message::Message;
use forebay_proto::{JobDefinition, JobKey, Ticket, consumer_event};

use crate::fetch::attempt::{FetchAttempt, FetchError, NextAction, classify};
use crate::fetch::remaining_ops::{run_remaining_ops, schema_after};
use crate::local_worker::LocalWorkerSlot;
use crate::session::protocol::ConsumerProtocol;
pub use crate::session::protocol::SessionEnd;
use crate::stream::progress::{ConsumerProgress, Next};
use crate::stream::reorder_buffer::{Head, ReorderBuffer};
use crate::stream::shared::{SessionState, StreamState};
use crate::stream::step_sync::StepSync;
pub use borrower::{Borrowed, Borrower, Borrowing};

/// The key of local workers in the simulation.
const LOCAL_KEY: [u8; 16] = [1; 16];

/// How often a consumer sends a heartbeat.
pub const HEARTBEAT: Duration = crate::session::protocol::HEARTBEAT;
/// How long a session may take to begin.
pub const SILENCE_MAX: Duration = crate::session::protocol::SILENCE_MAX;
/// Time for the last message.
pub const FINISH_MAX: Duration = crate::session::driver::FINISH_MAX;
/// How long a consumer waits for consumers that are not running.
const RANK_TIMEOUT: Duration = Duration::from_secs(60);

/// A stream of a split's chunks to open.
#[derive(Debug, Clone)]
pub struct Fetching {
    /// The stream's name in later calls.
    pub id: u64,
    /// The worker.
    pub address: String,
    /// The ticket to present to the worker.
    pub ticket: Ticket,
}

/// How a stream of chunks ended.
#[derive(Debug)]
pub enum StreamEnd {
    /// With status OK: the split is complete.
    Complete,
    /// With an error that the worker sent.
    Worker(Error),
    /// The connection broke, or was never there.
    Connection(Error),
    /// By this side: a remaining op failed on a chunk.
    Unfinished(Error),
    /// By this side: the assignment is no longer wanted.
    Unwanted,
}

/// The result of the user's `next`.
#[derive(Debug)]
pub enum Polled {
    /// A batch.
    Delivery(Box<Delivery>),
    /// The batch has not arrived yet.
    Wait,
    /// The last epoch is over.
    Over,
}

/// The options of a consumer.
pub struct Options {
    /// The index of the consumer.
    pub consumer: u32,
    /// Whether splits are delivered in order.
    pub ordered: bool,
    /// How many splits may be ahead of the consumer.
    pub window: u32,
    /// How long `next` waits for a dispatcher.
    pub deadline: Duration,
    /// The position to resume from.
    pub from: Option<Position>,
    /// How many samples may be skipped.
    pub budget: Budget,
    /// The samples that were skipped before it.
    pub known: Vec<SkippedSample>,
}

/// A consumer's state machines.
pub struct Consumer {
    state: StreamState,
    protocol: ConsumerProtocol,
    progress: ConsumerProgress,
    tail: Arc<Executable>,
    attempts: BTreeMap<u64, FetchAttempt>,
    fetches: u64,
    deadline: Duration,
    /// Whether `next` has waited since it last found something.
    waiting: bool,
    /// Skipped samples that the user has not taken yet.
    lost: Vec<SkippedSample>,
    /// The error that ends the stream, once the samples skipped before it are durable.
    ended: Option<Error>,
    /// When the consumer began to wait for consumers that are not running.
    missing: Option<Ticks>,
}

impl Consumer {
    /// Starts reading a job, as `ServiceStream::start`.
    ///
    /// # Errors
    /// The errors of preparing the tail's ops.
    pub fn start(now: Ticks, job: &JobDefinition, tail: Arc<Executable>, options: Options) -> Result<Self> {
        let Options { consumer, ordered, window, deadline, from, budget, known } = options;
        let resume = from.is_some();
        let from = from.unwrap_or_default();
        let splits = tail.plan().num_splits(ConsumerIndex(consumer));
        let at = crate::stream::reorder_buffer::SplitKey { epoch: from.epoch, ordinal: from.split };
        let (epochs, ending) = (Some(job.epochs).filter(|&n| n > 0), Ending::from(job.ending()));
        let local_worker = Arc::new(LocalWorkerSlot::for_worker(JobKey::from_bytes(&LOCAL_KEY)));
        let buffer = ReorderBuffer::new(at, from.chunk);
        let buffer = if ordered { buffer } else { buffer.in_any_order() };
        let mut state = StreamState::new(buffer, local_worker, now);
        state.steps = (ending != Ending::Apart).then(|| StepSync::new(job.consumers, from.epoch));
        let mut merge = Merge::new(tail.clone(), ConsumerIndex(consumer), &from)?;
        merge.set_budget(budget);
        merge.set_known_skips(KnownSkips::of(&known));
        Ok(Self {
            state,
            protocol: ConsumerProtocol::new(job.job, consumer, window, resume, Vec::new()),
            progress: ConsumerProgress::new(merge, &from, splits, epochs).with_ending(ending, job.consumers, &from),
            tail,
            attempts: BTreeMap::new(),
            fetches: 0,
            deadline,
            waiting: false,
            lost: Vec::new(),
            ended: None,
            missing: None,
        })
    }

    /// Begins a session; returns its first message.
    pub fn attach(&mut self) -> Message {
        self.protocol.attach(&mut self.state)
    }

    /// Accepts the first event of a session.
    ///
    /// # Errors
    /// Internal if it is not Attached.
    pub fn attached(&mut self, now: Ticks, event: consumer_event::Event) -> Result<()> {
        self.protocol.attached(now, &mut self.state, Some(event))
    }

    /// Accepts a later event.
    pub fn take_event(&mut self, now: Ticks, event: consumer_event::Event) -> Option<Fetching> {
        let assignment = self.protocol.take_event(now, &mut self.state, Some(event))?;
        self.fetches += 1;
        self.attempts.insert(self.fetches, FetchAttempt::new(assignment));
        self.fetching(self.fetches)
    }

    /// Returns the messages that wait, and whether the last message of the stream is among them.
    pub fn take_messages(&mut self, now: Ticks) -> (Vec<Message>, bool) {
        ConsumerProtocol::take_messages(now, &mut self.state)
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable if the dispatcher was silent for too long.
    pub fn heartbeat(&mut self, now: Ticks) -> Result<Message> {
        self.protocol.heartbeat(now, &mut self.state, Vec::new())
    }

    /// Ends a session, or an attempt at one. Returns the pause before the next one; `None` if there is no next one.
    pub fn session_ended(&mut self, now: Ticks, end: SessionEnd) -> Option<Duration> {
        self.protocol.session_ended(now, &mut self.state, end).unwrap_or_else(|error| {
            self.state.fatal.get_or_insert(error);
            None
        })
    }

    /// Returns whether the dispatcher has the last message.
    pub fn is_finished(&self) -> bool {
        matches!(self.state.session, SessionState::Finished)
    }

    fn fetching(&self, id: u64) -> Option<Fetching> {
        let assignment = &self.attempts.get(&id)?.assignment;
        let ticket = Ticket {
            job: self.protocol.job,
            epoch: assignment.split.epoch,
            consumer: self.protocol.consumer,
            ordinal: assignment.split.ordinal,
            token: assignment.token,
            from_chunk: assignment.from_chunk,
            key: JobKey::default(),
            trace: false,
        };
        Some(Fetching { id, address: assignment.address.clone(), ticket })
    }

    /// Returns whether a stream may receive a message now; `None` if the assignment is no longer wanted.
    pub fn has_room(&self, id: u64) -> Option<bool> {
        self.state.room_for(&self.attempts.get(&id)?.assignment)
    }

    /// Accepts a chunk of a stream, of `bytes` bytes, on which the worker ran `ops_on_worker` row ops; runs the
    /// remaining ops. Returns whether the assignment is still wanted.
    ///
    /// # Errors
    /// The error that ended the stream: the pipeline has no such placement boundary, a remaining op failed, or the
    /// chunk is not the next one.
    pub fn chunk(
        &mut self,
        id: u64,
        index: u64,
        chunk: Chunk,
        ops_on_worker: u32,
        bytes: usize,
    ) -> Result<bool, StreamEnd> {
        let Some(attempt) = self.attempts.get(&id) else { return Ok(false) };
        schema_after(&self.tail, ops_on_worker).map_err(StreamEnd::Connection)?;
        let chunk = run_remaining_ops(&self.tail, chunk, ops_on_worker).map_err(StreamEnd::Unfinished)?;
        self.state.buffer.push(&attempt.assignment, index, chunk, bytes).map_err(StreamEnd::Connection)
    }

    /// Returns the index of the next chunk that the split needs; the stream has to continue with it.
    pub fn next_index(&mut self, id: u64) -> Option<u64> {
        self.state.buffer.resume(&self.attempts.get(&id)?.assignment).map(|assignment| assignment.from_chunk)
    }

    /// Ends a stream. Returns the stream to open in its place.
    pub fn stream_ended(&mut self, id: u64, end: StreamEnd) -> Option<Fetching> {
        let attempt = self.attempts.get_mut(&id)?;
        let ended = match end {
            StreamEnd::Complete => Ok(()),
            StreamEnd::Worker(error) => Err(classify(error)),
            StreamEnd::Connection(error) => Err(FetchError::Worker(error)),
            StreamEnd::Unfinished(error) => Err(FetchError::Split(error)),
            StreamEnd::Unwanted => Err(FetchError::Unwanted),
        };
        match attempt.after(&mut self.state, ended) {
            NextAction::Reopen => self.fetching(id),
            NextAction::Stop | NextAction::Report => {
                self.attempts.remove(&id);
                None
            }
        }
    }

    /// Notes that the user requests more, so it has consumed the last delivery.
    pub fn consume(&mut self) {
        if let Some(split) = self.progress.consume() {
            self.state.outgoing.ack = Some(split);
        }
    }

    /// As `ServiceStream::next`, without waiting.
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn poll(&mut self, now: Ticks) -> Result<Polled> {
        loop {
            if !self.state.are_skips_durable() {
                return match &self.state.fatal {
                    Some(error) => Err(error.clone()),
                    None if self.state.is_dispatcher_lost(now, self.deadline) => Err(unanswered()),
                    None => Ok(Polled::Wait),
                };
            }
            if let Some(error) = self.ended.take() {
                return Err(error);
            }
            if self.progress.has_room() {
                let head = self.state.pop_head();
                if !matches!(head, Head::Empty) {
                    if std::mem::take(&mut self.waiting) {
                        self.state.meter.set_waiting(now, false);
                    }
                    self.merge(head);
                    continue;
                }
            }
            let floor = self.sync_steps();
            match self.progress.next(floor)? {
                Next::Delivery(delivery) => {
                    self.state.meter.deliver();
                    self.missing = None;
                    return Ok(Polled::Delivery(delivery));
                }
                Next::Finished => return Ok(Polled::Over),
                Next::EpochEnd { ended, at } => {
                    self.report();
                    self.state.end_epoch(ended, at);
                    self.missing = None;
                }
                Next::WaitForOthers { is_starved } => {
                    if let Some(error) = &self.state.fatal {
                        return Err(error.clone());
                    }
                    let is_missing = self.state.steps.as_ref().is_some_and(|steps| !steps.missing().is_empty());
                    let since = *self.missing.get_or_insert(now);
                    self.missing = is_missing.then_some(since);
                    if is_missing && now - since >= RANK_TIMEOUT {
                        return Err(Error::unavailable("another consumer did not come"));
                    }
                    return self.wait(now, is_starved);
                }
                Next::Head => {
                    if let Some(error) = &self.state.fatal {
                        return Err(error.clone());
                    }
                    let head = self.state.pop_head();
                    if matches!(head, Head::Empty) {
                        return self.wait(now, true);
                    }
                    if std::mem::take(&mut self.waiting) {
                        self.state.meter.set_waiting(now, false);
                    }
                    self.merge(head);
                }
            }
        }
    }

    fn report(&mut self) {
        let lost = self.progress.take_losses();
        self.state.report(&lost);
        self.lost.extend(lost);
    }

    /// Returns the samples that were skipped since the last call.
    pub fn take_losses(&mut self) -> Vec<SkippedSample> {
        std::mem::take(&mut self.lost)
    }

    fn merge(&mut self, head: Head) {
        self.ended = self.progress.merge(head).err();
        self.report();
    }

    fn sync_steps(&mut self) -> Floor {
        self.progress.find_end();
        let (Some((epoch, count, given)), Some(steps)) = (self.progress.step_counts(), &mut self.state.steps) else {
            return Floor::default();
        };
        steps.set(epoch, count, given)
    }

    fn wait(&mut self, now: Ticks, is_starved: bool) -> Result<Polled> {
        let is_stranded = match is_starved {
            true => self.state.is_stranded(now, self.deadline),
            false => self.state.is_dispatcher_lost(now, self.deadline),
        };
        if is_stranded {
            return Err(unanswered());
        }
        if is_starved && !std::mem::replace(&mut self.waiting, true) {
            self.state.meter.set_waiting(now, true);
            self.state.outgoing.ack = self.progress.acknowledge_merged().or(self.state.outgoing.ack);
        }
        Ok(Polled::Wait)
    }

    /// Queues the last message, because everything was consumed.
    pub fn finish(&mut self) {
        self.state.outgoing.ack = Some(self.progress.finish());
        self.state.outgoing.finish = true;
    }

    /// Returns the error that ends the stream.
    pub fn fatal(&self) -> Option<&Error> {
        self.state.fatal.as_ref()
    }

    /// Checks the invariants of the reorder buffer.
    ///
    /// # Errors
    /// Internal, naming the violated invariant.
    pub fn check(&self) -> Result<()> {
        self.state.buffer.check()
    }
}

fn unanswered() -> Error {
    Error::unavailable("the dispatcher did not answer until the deadline")
}
