//! The dispatcher without I/O and without a clock: the state, its outbox, and the open sessions.
//!
//! Inputs and the time come in; outputs and batches come out. The actor drives it with channels and a disk, the
//! simulation (`crates/sim`) with a network and a disk that fail.
//!
//! Invariants:
//! - Outputs are in the order in which they must be sent.
//! - An output that follows an update which must be durable is not returned before the update's batch was written.
//! - The first output of a session is never a heartbeat.
//! - A consumer whose session is over gets the reason only after everything that it finished is durable.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_core::{Error, Result, Ticks};
use forebay_proto::{GetScaleResponse, JobStatus, WorkerStatus, consumer_event, worker_event};

use crate::actor::outbox::Outbox;
use crate::records::{Batch, JobRecord};
use crate::state::{Effect, Input, SessionId, State, StateFigures};
use crate::tenant::Quota;

/// Something to send now. `A` is the answer to a request.
#[derive(Debug)]
pub(crate) enum Output<A> {
    Consumer(SessionId, consumer_event::Event),
    Worker(SessionId, worker_event::Event),
    /// The session ends with an error.
    End(SessionId, Error),
    /// The session is over, and its peer's last message is as durable as it must be: the peer may get the reason.
    Closed(SessionId),
    Answer(A),
}

pub(crate) struct DispatcherCore<A> {
    state: State,
    outbox: Outbox<Output<A>>,
    /// The open sessions, and whether anything was sent in each.
    open: HashMap<SessionId, bool>,
    outputs: Vec<Output<A>>,
}

impl<A> DispatcherCore<A> {
    /// Starts with a state and the corrections that its recovery made.
    pub(crate) fn new(state: State, recovered: Vec<Effect>, now: Ticks) -> Self {
        let mut core = Self { state, outbox: Outbox::default(), open: HashMap::new(), outputs: Vec::new() };
        core.take(now, recovered);
        core
    }

    /// Begins a session with its first message.
    pub(crate) fn begin(&mut self, now: Ticks, session: SessionId, input: Input) {
        self.open.insert(session, false);
        self.input(now, input);
    }

    pub(crate) fn input(&mut self, now: Ticks, input: Input) {
        let gone = match input {
            Input::ConsumerGone { session } | Input::WorkerGone { session } => Some(session),
            _ => None,
        };
        let mut effects = Vec::new();
        self.state.handle(now, input, &mut effects);
        self.take(now, effects);
        if let Some(session) = gone {
            self.emit(Output::Closed(session));
        }
    }

    /// Closes a session in which nothing more can be sent, in any state of it.
    pub(crate) fn close(&mut self, session: SessionId) {
        self.open.remove(&session);
    }

    /// Answers with a tenant's job by name, if there is one, once the job is durable: the client attaches to it.
    pub(crate) fn find(&mut self, tenant: &str, name: &str, answer: impl FnOnce(Option<Arc<JobRecord>>) -> A) {
        let found = self.state.job(tenant, name).cloned();
        self.emit(Output::Answer(answer(found)));
    }

    pub(crate) fn wanted(&self, now: Ticks) -> GetScaleResponse {
        self.state.wanted(now)
    }

    pub(crate) fn figures(&self, now: Ticks) -> StateFigures {
        self.state.figures(now)
    }

    pub(crate) fn list_jobs(&self, now: Ticks, tenant: Option<&str>, name: &str) -> Vec<JobStatus> {
        self.state.list_jobs(now, tenant, name)
    }

    pub(crate) fn list_workers(&self, now: Ticks, tenant: Option<&str>) -> Vec<WorkerStatus> {
        self.state.list_workers(now, tenant)
    }

    /// Creates a job, and answers once it is durable; at once when it is refused.
    pub(crate) fn create(
        &mut self,
        now: Ticks,
        record: JobRecord,
        splits: &[Option<u64>],
        quota: Quota,
        answer: impl FnOnce(Result<Arc<JobRecord>>) -> A,
    ) {
        let mut effects = Vec::new();
        let created = self.state.create(now, record, splits, quota, &mut effects);
        self.answer(now, effects, created.is_ok(), answer(created));
    }

    /// Cancels a job, and answers once that is durable; at once when it is refused.
    pub(crate) fn cancel(&mut self, now: Ticks, tenant: &str, name: &str, answer: impl FnOnce(Result<()>) -> A) {
        let mut effects = Vec::new();
        let cancelled = self.state.cancel(now, tenant, name, &mut effects);
        self.answer(now, effects, cancelled.is_ok(), answer(cancelled));
    }

    /// Removes a job that is over, and answers once that is durable; at once when it is refused.
    pub(crate) fn forget(&mut self, now: Ticks, tenant: &str, name: &str, answer: impl FnOnce(Result<()>) -> A) {
        let mut effects = Vec::new();
        let forgotten = self.state.forget_job(now, tenant, name, &mut effects);
        self.answer(now, effects, forgotten.is_ok(), answer(forgotten));
    }

    /// Answers with the records of all jobs, once it is durable that there are no others.
    pub(crate) fn records(&mut self, answer: impl FnOnce(Vec<Arc<JobRecord>>) -> A) {
        let records = self.state.records();
        self.emit(Output::Answer(answer(records)));
    }

    /// Sets the placement boundary of a job.
    pub(crate) fn set_boundary(&mut self, now: Ticks, tenant: &str, name: &str, number: u32) -> Option<u32> {
        self.state.set_boundary(now, tenant, name, number)
    }

    fn answer(&mut self, now: Ticks, effects: Vec<Effect>, waits: bool, answer: A) {
        self.take(now, effects);
        match waits {
            true => self.emit(Output::Answer(answer)),
            false => self.outputs.push(Output::Answer(answer)),
        }
    }

    /// Grants splits, and returns the batch to write now, if there is one and none is being written.
    pub(crate) fn schedule(&mut self, now: Ticks) -> Option<Batch> {
        let mut effects = Vec::new();
        self.state.schedule(now, &mut effects);
        self.take(now, effects);
        self.outbox.next(now)
    }

    /// Returns whether a batch is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.outbox.is_writing()
    }

    /// The batch is durable.
    pub(crate) fn batch_written(&mut self) {
        self.outbox.written().into_iter().for_each(|output| self.release(output));
    }

    /// Returns the last batch to write when this process stops.
    pub(crate) fn last_batch(&mut self) -> Option<Batch> {
        let mut effects = Vec::new();
        self.state.write_profiles(&mut effects);
        self.take(Ticks(0), effects);
        self.outbox.rest()
    }

    /// Returns the outputs to send now, in order.
    pub(crate) fn drain_outputs(&mut self) -> Vec<Output<A>> {
        std::mem::take(&mut self.outputs)
    }

    /// Checks the invariants of [`State`].
    ///
    /// # Errors
    /// Internal, naming the invariant that does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.check()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    fn take(&mut self, now: Ticks, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist(update) => self.outbox.update(now, update.into_update(), true),
                Effect::Remember(update) => self.outbox.update(now, update, false),
                Effect::Worker(session, event) => self.emit(Output::Worker(session, event)),
                Effect::Consumer(session, event) => self.emit(Output::Consumer(session, event)),
                Effect::End(session, error) => self.emit(Output::End(session, error)),
            }
        }
    }

    fn emit(&mut self, output: Output<A>) {
        if let Some(session) = heartbeat(&output) {
            // A slow disk does not mean that this process is dead: heartbeats do not wait for it.
            if self.open.get(&session) == Some(&true) {
                self.outputs.push(output);
            }
        } else if let Some(output) = self.outbox.say(output) {
            self.release(output);
        }
    }

    fn release(&mut self, output: Output<A>) {
        match &output {
            Output::Consumer(session, _) | Output::Worker(session, _) => {
                let Some(greeted) = self.open.get_mut(session) else { return };
                *greeted = true;
            }
            Output::End(session, _) | Output::Closed(session) => {
                if self.open.remove(session).is_none() {
                    return;
                }
            }
            Output::Answer(_) => {}
        }
        self.outputs.push(output);
    }
}

/// Returns the session of a heartbeat.
fn heartbeat<A>(output: &Output<A>) -> Option<SessionId> {
    match output {
        Output::Consumer(session, consumer_event::Event::Heartbeat(_))
        | Output::Worker(session, worker_event::Event::Heartbeat(_)) => Some(*session),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::Timing;
    use crate::records::{Ledger, Position};
    use crate::state::Attachment;

    fn record() -> JobRecord {
        JobRecord { name: "job".to_owned(), ..JobRecord::empty() }
    }

    fn core() -> DispatcherCore<u64> {
        let splits = |_: &JobRecord| Ok(vec![Some(1)]);
        let state = State::recover(Timing::default(), Ticks(0), &Ledger::default(), splits, &mut Vec::new());
        let mut core = DispatcherCore::new(state.expect("empty"), Vec::new(), Ticks(0));
        core.create(Ticks(0), record(), &[Some(1)], Quota::default(), |made| made.map_or(0, |r| r.id));
        assert!(core.schedule(Ticks(0)).is_some() && core.drain_outputs().is_empty(), "not before it is durable");
        core.batch_written();
        assert!(matches!(core.drain_outputs()[..], [Output::Answer(1)]));
        core
    }

    fn attach(core: &mut DispatcherCore<u64>, session: SessionId) {
        let attachment = Attachment { session, consumer: (1, 0), window: 1, ..Attachment::default() };
        core.begin(Ticks(1), session, Input::Attach(attachment));
    }

    #[test]
    fn a_last_word_is_confirmed_once_what_it_finished_is_durable() {
        let mut core = core();
        let session = SessionId(7);
        attach(&mut core, session);
        assert!(matches!(core.drain_outputs()[..], [Output::Consumer(_, consumer_event::Event::Attached(_))]));
        core.input(Ticks(2), Input::Ack { session, position: Position::new(0, 1) });
        core.input(Ticks(2), Input::ConsumerGone { session });
        assert!(core.schedule(Ticks(2)).is_some() && core.drain_outputs().is_empty());
        core.batch_written();
        assert!(matches!(core.drain_outputs()[..], [Output::Closed(closed)] if closed == session));
    }

    #[test]
    fn a_job_is_found_once_it_is_durable() {
        let mut core = core();
        core.create(Ticks(1), JobRecord { name: "other".to_owned(), ..record() }, &[Some(1)], Quota::default(), |_| 2);
        core.find("", "other", |found| found.map_or(0, |_| 3));
        assert!(core.schedule(Ticks(1)).is_some() && core.drain_outputs().is_empty());
        core.batch_written();
        assert!(matches!(core.drain_outputs()[..], [Output::Answer(2), Output::Answer(3)]));
    }

    #[test]
    fn that_a_job_is_gone_is_told_once_it_is_durable() {
        let mut core = core();
        core.cancel(Ticks(1), "", "job", |_| 2);
        core.forget(Ticks(1), "", "job", |_| 3);
        core.records(|jobs| 4 + jobs.len() as u64);
        assert!(core.schedule(Ticks(1)).is_some() && core.drain_outputs().is_empty());
        core.batch_written();
        assert!(matches!(core.drain_outputs()[..], [Output::Answer(2), Output::Answer(3), Output::Answer(4)]));
    }

    #[test]
    fn a_session_that_ends_in_the_middle_is_let_go_at_once() {
        let mut core = core();
        let session = SessionId(7);
        attach(&mut core, session);
        core.drain_outputs();
        core.input(Ticks(1) + Duration::from_millis(1), Input::ConsumerGone { session });
        assert!(matches!(core.drain_outputs()[..], [Output::Closed(closed)] if closed == session));
        core.input(Ticks(3), Input::ConsumerGone { session });
        assert!(core.drain_outputs().is_empty());
    }
}
