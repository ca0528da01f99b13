//! The dispatcher without I/O and without a clock: the state, what must be durable before it is said, who is connected.
//!
//! Inputs and the time come in, words and batches come out. The actor drives it with channels and a disk, the
//! simulation (`crates/sim`) with a network and a disk that fail.
//! Invariants: words are in the order in which they must be said; what follows an update that must be durable is not
//! among them before its batch was written; the first word of a session is never a heartbeat.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_core::{Error, Result, Ticks};
use forebay_proto::{JobStatus, WorkerStatus, consumer_event, worker_event};

use crate::outbox::Outbox;
use crate::records::{Batch, JobRecord};
use crate::state::{Effect, Input, SessionId, State};

/// Something to say, now. `A` answers a request.
#[derive(Debug)]
pub(crate) enum Word<A> {
    Consumer(SessionId, consumer_event::Event),
    Worker(SessionId, worker_event::Event),
    /// The session is over, with an error.
    End(SessionId, Error),
    Answer(A),
}

pub(crate) struct Machine<A> {
    state: State,
    outbox: Outbox<Word<A>>,
    /// Sessions, and whether each has been told anything.
    open: HashMap<SessionId, bool>,
    said: Vec<Word<A>>,
}

impl<A> Machine<A> {
    /// Starts with a state and what its recovery puts right.
    pub(crate) fn new(state: State, recovered: Vec<Effect>, now: Ticks) -> Self {
        let mut machine = Self { state, outbox: Outbox::default(), open: HashMap::new(), said: Vec::new() };
        machine.take(now, recovered);
        machine
    }

    /// A session begins with its first message.
    pub(crate) fn begin(&mut self, now: Ticks, session: SessionId, input: Input) {
        self.open.insert(session, false);
        self.input(now, input);
    }

    pub(crate) fn input(&mut self, now: Ticks, input: Input) {
        if let Input::ConsumerGone { session } | Input::WorkerGone { session } = input {
            self.open.remove(&session);
        }
        let mut effects = Vec::new();
        self.state.handle(now, input, &mut effects);
        self.take(now, effects);
    }

    /// Nothing more can be said in a session, whatever the state thinks of it.
    pub(crate) fn close(&mut self, session: SessionId) {
        self.open.remove(&session);
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<JobRecord>> {
        self.state.job(name)
    }

    pub(crate) fn list_jobs(&self) -> Vec<JobStatus> {
        self.state.list_jobs()
    }

    pub(crate) fn list_workers(&self, now: Ticks) -> Vec<WorkerStatus> {
        self.state.list_workers(now)
    }

    /// Begins a job, and answers once it is durable; at once when it is refused.
    pub(crate) fn create(
        &mut self,
        now: Ticks,
        record: JobRecord,
        splits: &[Option<u64>],
        answer: impl FnOnce(Result<Arc<JobRecord>>) -> A,
    ) {
        let mut effects = Vec::new();
        let created = self.state.create(now, record, splits, &mut effects);
        self.answer(now, effects, created.is_ok(), answer(created));
    }

    /// Ends a job for good, and answers once that is durable; at once when it is refused.
    pub(crate) fn cancel(&mut self, now: Ticks, name: &str, answer: impl FnOnce(Result<()>) -> A) {
        let mut effects = Vec::new();
        let cancelled = self.state.cancel(now, name, &mut effects);
        self.answer(now, effects, cancelled.is_ok(), answer(cancelled));
    }

    fn answer(&mut self, now: Ticks, effects: Vec<Effect>, waits: bool, answer: A) {
        self.take(now, effects);
        match waits {
            true => self.say(Word::Answer(answer)),
            false => self.said.push(Word::Answer(answer)),
        }
    }

    /// Grants what can be granted, and returns the batch to write now, if there is one and none is being written.
    pub(crate) fn schedule(&mut self, now: Ticks) -> Option<Batch> {
        let mut effects = Vec::new();
        self.state.schedule(now, &mut effects);
        self.take(now, effects);
        self.outbox.next(now)
    }

    /// Whether a batch is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.outbox.is_writing()
    }

    /// The batch is durable.
    pub(crate) fn written(&mut self) {
        self.outbox.written().into_iter().for_each(|word| self.release(word));
    }

    /// Returns what is left to write, at the end.
    pub(crate) fn rest(&mut self) -> Option<Batch> {
        self.outbox.rest()
    }

    /// Returns what is to be said now, in order.
    pub(crate) fn said(&mut self) -> Vec<Word<A>> {
        std::mem::take(&mut self.said)
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
                Effect::Persist(update) => self.outbox.update(now, update, true),
                Effect::Remember(update) => self.outbox.update(now, update, false),
                Effect::Worker(session, event) => self.say(Word::Worker(session, event)),
                Effect::Consumer(session, event) => self.say(Word::Consumer(session, event)),
                Effect::End(session, error) => self.say(Word::End(session, error)),
            }
        }
    }

    fn say(&mut self, word: Word<A>) {
        if let Some(session) = heartbeat(&word) {
            // Whether the disk is slow says nothing about whether this process lives.
            if self.open.get(&session) == Some(&true) {
                self.said.push(word);
            }
        } else if let Some(word) = self.outbox.say(word) {
            self.release(word);
        }
    }

    fn release(&mut self, word: Word<A>) {
        match &word {
            Word::Consumer(session, _) | Word::Worker(session, _) => {
                let Some(greeted) = self.open.get_mut(session) else { return };
                *greeted = true;
            }
            Word::End(session, _) => {
                if self.open.remove(session).is_none() {
                    return;
                }
            }
            Word::Answer(_) => {}
        }
        self.said.push(word);
    }
}

/// Returns the session that a word is a heartbeat for.
fn heartbeat<A>(word: &Word<A>) -> Option<SessionId> {
    match word {
        Word::Consumer(session, consumer_event::Event::Heartbeat(_))
        | Word::Worker(session, worker_event::Event::Heartbeat(_)) => Some(*session),
        _ => None,
    }
}
