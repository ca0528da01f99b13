//! The state that the user's thread shares with the tasks of a stream: reorder buffer, outgoing messages,
//! session state.
//!
//! One lock guards it, held briefly and never across network I/O. Bounds: acknowledgements are coalesced into one
//! position; at most one Unreachable message waits for each split of the reorder buffer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_core::{Clock, Error, SystemClock, Ticks};
use forebay_exec::SkippedSample;
use forebay_plan::Floor;
use forebay_proto::Unreachable;
use tokio::sync::Notify;

use crate::local_worker::LocalWorkerSlot;
use crate::lock::lock;
use crate::session::skip_reports::SkipReports;
use crate::session::trace::Recordings;
use crate::stream::meter::Meter;
use crate::stream::reorder_buffer::{Assignment, Head, ReorderBuffer, SplitKey};
use crate::stream::step_sync::StepSync;
use crate::stream::unreadable::UnreadableSplits;

/// Messages that wait to be sent to the dispatcher.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The consumer has consumed all splits before this one.
    pub(crate) ack: Option<SplitKey>,
    /// Epochs that the consumer does not need to their end.
    pub(crate) ended: Vec<u64>,
    /// Splits that no fetch from the assigned worker could complete.
    pub(crate) unreachable: Vec<Unreachable>,
    /// The consumer has consumed all splits: the session ends after this.
    pub(crate) finish: bool,
}

/// The state of the session with the dispatcher.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionState {
    Open,
    /// There has been no session since this time.
    Broken(Ticks),
    /// The dispatcher has received the last message.
    Finished,
}

pub(crate) struct StreamState {
    pub(crate) buffer: ReorderBuffer,
    pub(crate) outgoing: Outgoing,
    /// The splits with a file that some workers cannot read.
    pub(crate) unreadable: UnreadableSplits,
    /// Why the last fetch from a worker failed, if no chunk was given out since.
    pub(crate) last_failure: Option<String>,
    /// The last `ack` and `finish` that were sent. The dispatcher may not have received them.
    last_sent: (Option<SplitKey>, bool),
    /// Skipped samples that the dispatcher has not recorded yet.
    pub(crate) skip_reports: SkipReports,
    /// The number of the skipped sample that must be durable before the stream goes on.
    durable_before_next: u64,
    /// The step counts of this consumer and of all, if consumers end epochs together.
    pub(crate) steps: Option<StepSync>,
    pub(crate) session: SessionState,
    /// The error that ends the stream.
    pub(crate) fatal: Option<Error>,
    /// The meter of the consumer's time.
    pub(crate) meter: Meter,
    /// The slot of the consumer's local worker.
    pub(crate) local_worker: Arc<LocalWorkerSlot>,
}

impl StreamState {
    /// Creates the state of a stream that has no session yet.
    pub(crate) fn new(buffer: ReorderBuffer, local_worker: Arc<LocalWorkerSlot>, now: Ticks) -> Self {
        let (outgoing, session) = (Outgoing::default(), SessionState::Broken(now));
        let skip_reports = SkipReports::default();
        Self {
            buffer,
            outgoing,
            unreadable: UnreadableSplits::default(),
            last_failure: None,
            last_sent: (None, false),
            skip_reports,
            durable_before_next: 0,
            steps: None,
            session,
            fatal: None,
            meter: Meter::new(now),
            local_worker,
        }
    }

    /// Takes the next item from the reorder buffer.
    pub(crate) fn pop_head(&mut self) -> Head {
        let head = self.buffer.pop();
        if let Head::Chunk { chunk, .. } = &head {
            self.meter.merge(chunk.num_rows(), chunk.num_bytes());
            self.last_failure = None;
        }
        head
    }

    /// Returns whether the floor of all consumers differs from `floor`: they have more steps, or the epoch is over.
    pub(crate) fn has_floor_moved(&self, floor: Option<Floor>) -> bool {
        floor.is_some_and(|floor| self.steps.as_ref().is_some_and(|steps| steps.floor() != floor))
    }

    /// Returns whether a fetch may receive another chunk now; `None` if its split is no longer wanted. The head
    /// split always has room, so the splits behind it always get their turn.
    pub(crate) fn room_for(&self, assignment: &Assignment) -> Option<bool> {
        self.buffer.is_wanted(assignment).then(|| self.buffer.has_room(assignment.split))
    }

    /// Returns whether there was no session for `deadline` and no fetch is on its way that could go on without one.
    pub(crate) fn is_stranded(&self, now: Ticks, deadline: Duration) -> bool {
        !self.buffer.is_head_coming() && self.is_dispatcher_lost(now, deadline)
    }

    /// Returns whether there was no session for `deadline`.
    pub(crate) fn is_dispatcher_lost(&self, now: Ticks, deadline: Duration) -> bool {
        match self.session {
            SessionState::Broken(since) => now - since >= deadline,
            SessionState::Open | SessionState::Finished => false,
        }
    }

    /// Queues skipped samples to be reported to the dispatcher.
    pub(crate) fn report(&mut self, lost: &[SkippedSample]) {
        for lost in lost.iter().filter(|l| !l.loss.is_warning()) {
            self.durable_before_next = self.skip_reports.add(lost).unwrap_or(self.durable_before_next);
        }
    }

    /// Returns whether the stream may go on. A skipped sample that might not fail again must be durable before anything
    /// after it is delivered.
    pub(crate) fn are_skips_durable(&self) -> bool {
        self.skip_reports.is_recorded(self.durable_before_next)
    }

    /// Takes the outgoing messages.
    pub(crate) fn take_outgoing(&mut self) -> Outgoing {
        self.last_sent = (self.outgoing.ack.or(self.last_sent.0), self.outgoing.finish || self.last_sent.1);
        std::mem::take(&mut self.outgoing)
    }

    /// Begins a session. The dispatcher may not have received the last messages of the session before, so they are sent
    /// again. The Unreachable messages are not: the new session assigns their splits anew.
    pub(crate) fn begin_session(&mut self) {
        let (ack, finish) = self.last_sent;
        self.outgoing.ack = self.outgoing.ack.or(ack);
        self.outgoing.finish |= finish;
        self.outgoing.unreachable.clear();
        self.unreadable.clear();
        self.skip_reports.restart();
        self.steps.iter_mut().for_each(StepSync::restart);
    }

    /// Moves the reorder buffer to `at`, after an epoch. `ended` names the epoch if its rest is not needed.
    pub(crate) fn end_epoch(&mut self, ended: Option<u64>, at: SplitKey) {
        self.outgoing.ended.extend(ended);
        self.buffer.move_to(at);
    }
}

/// The shared state, and the wake-ups for a change.
pub(crate) struct StreamShared {
    clock: SystemClock,
    state: Mutex<StreamState>,
    /// Wakes `next`: there may be a chunk, an end, an error.
    wake: Condvar,
    /// Wakes the session: there are messages to send.
    pub(crate) to_send: Notify,
    /// Wakes the fetches: the reorder buffer may have more room, or another head.
    pub(crate) room: Notify,
    /// The traces that are recorded for this stream.
    pub(crate) recordings: Recordings,
}

impl StreamShared {
    pub(crate) fn new(buffer: ReorderBuffer, local_worker: Arc<LocalWorkerSlot>) -> Self {
        let clock = SystemClock::default();
        let state = Mutex::new(StreamState::new(buffer, local_worker, clock.now()));
        let recordings = Recordings::default();
        Self { clock, state, wake: Condvar::new(), to_send: Notify::new(), room: Notify::new(), recordings }
    }

    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamState> {
        lock(&self.state)
    }

    /// Changes the state and wakes `next`.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut StreamState) -> T) -> T {
        let changed = {
            let mut state = self.lock();
            let changed = change(&mut state);
            debug_assert_eq!(state.buffer.check(), Ok(()));
            changed
        };
        self.wake.notify_all();
        changed
    }

    /// Ends the stream with an error.
    pub(crate) fn fail(&self, error: Error) {
        self.update(|s| s.fatal = s.fatal.take().or(Some(error)));
        self.room.notify_waiters();
    }

    /// Waits for a change, for at most `time`.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, StreamState>, time: Duration) -> MutexGuard<'a, StreamState> {
        self.wake.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }
}
