//! The one task that owns the state. Sessions and requests talk to it by messages; it talks back through ports.
//!
//! It takes all commands that are waiting, then grants, then hands one batch to the committer: under load, batches
//! grow and flushes do not multiply. It never waits for a peer: a session whose port is full is ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_core::{Clock, Error, Result};
use forebay_proto::{ConsumerEvent, JobStatus, WorkerEvent, WorkerStatus, consumer_event, to_status, worker_event};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::outbox::Outbox;
use crate::records::JobRecord;
use crate::state::{Effect, Input, SessionId, State};
use crate::store::Committer;

/// Commands that may wait; whoever sends more waits.
const COMMANDS_MAX: usize = 4096;
/// Events that may wait for a peer: more than a window of leases and all that can happen to them.
pub(crate) const PORT_EVENTS_MAX: usize = 16_384;
/// Commands that are taken together.
const TOGETHER_MAX: usize = 1024;
const TICK: Duration = Duration::from_millis(50);
/// How long the last batch may take at the end.
const LAST_WRITE_MAX: Duration = Duration::from_secs(3);

/// Where the events of a session go.
pub(crate) enum Port {
    Consumer(mpsc::Sender<Result<ConsumerEvent, Status>>),
    Worker(mpsc::Sender<Result<WorkerEvent, Status>>),
}

pub(crate) enum Command {
    /// A session begins with its first message. `ended` is cancelled when the actor ends it.
    Begin {
        session: SessionId,
        port: Port,
        ended: CancellationToken,
        input: Input,
    },
    Input(Input),
    Find {
        name: String,
        reply: oneshot::Sender<Option<Arc<JobRecord>>>,
    },
    Create {
        record: Box<JobRecord>,
        splits: Vec<Option<u64>>,
        reply: oneshot::Sender<Result<Arc<JobRecord>>>,
    },
    Cancel {
        name: String,
        reply: oneshot::Sender<Result<()>>,
    },
    ListJobs {
        reply: oneshot::Sender<Vec<JobStatus>>,
    },
    ListWorkers {
        reply: oneshot::Sender<Vec<WorkerStatus>>,
    },
}

/// Talks to the actor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    sessions: Arc<AtomicU64>,
}

impl Handle {
    /// Returns a handle and the other end, for [`Actor::new`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        (Self { commands, sessions: Arc::default() }, inbox)
    }

    /// Returns a session that never was.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn send(&self, command: Command) -> Result<()> {
        self.commands.send(command).await.map_err(|_| stopping())
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.map_err(|_| stopping())
    }

    pub(crate) async fn find(&self, name: &str) -> Result<Option<Arc<JobRecord>>> {
        self.ask(|reply| Command::Find { name: name.to_owned(), reply }).await
    }

    pub(crate) async fn create(&self, record: JobRecord, splits: Vec<Option<u64>>) -> Result<Arc<JobRecord>> {
        self.ask(|reply| Command::Create { record: Box::new(record), splits, reply }).await?
    }

    pub(crate) async fn cancel(&self, name: String) -> Result<()> {
        self.ask(|reply| Command::Cancel { name, reply }).await?
    }

    pub(crate) async fn list_jobs(&self) -> Result<Vec<JobStatus>> {
        self.ask(|reply| Command::ListJobs { reply }).await
    }

    pub(crate) async fn list_workers(&self) -> Result<Vec<WorkerStatus>> {
        self.ask(|reply| Command::ListWorkers { reply }).await
    }
}

fn stopping() -> Error {
    Error::unavailable("the dispatcher is stopping")
}

struct Open {
    port: Port,
    ended: CancellationToken,
    /// Whether it has been told anything: the first event is never a heartbeat.
    greeted: bool,
}

/// Something to say.
enum Delivery {
    Effect(Effect),
    Created(oneshot::Sender<Result<Arc<JobRecord>>>, Arc<JobRecord>),
    Cancelled(oneshot::Sender<Result<()>>),
}

/// The state's owner.
pub(crate) struct Actor {
    state: State,
    clock: Arc<dyn Clock>,
    inbox: mpsc::Receiver<Command>,
    committer: Committer,
    outbox: Outbox<Delivery>,
    open: HashMap<SessionId, Open>,
}

impl Actor {
    pub(crate) fn new(
        state: State,
        recovered: Vec<Effect>,
        clock: Arc<dyn Clock>,
        inbox: mpsc::Receiver<Command>,
        committer: Committer,
    ) -> Self {
        let mut actor = Self { state, clock, inbox, committer, outbox: Outbox::default(), open: HashMap::new() };
        actor.take(recovered);
        actor
    }

    /// Runs until `shutdown`; then writes what is left and ends all sessions.
    ///
    /// # Errors
    /// Internal when the ledger's thread died.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<()> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut commands = Vec::with_capacity(TOGETHER_MAX);
        loop {
            let mut effects = Vec::new();
            tokio::select! {
                () = shutdown.cancelled() => break,
                done = self.committer.done(), if self.outbox.is_writing() => {
                    done.ok_or_else(|| Error::internal("the ledger's thread died"))?;
                    self.outbox.written().into_iter().for_each(|d| self.deliver(d));
                }
                _ = self.inbox.recv_many(&mut commands, TOGETHER_MAX) => {
                    for command in commands.drain(..) {
                        self.command(command, &mut effects);
                        self.take(std::mem::take(&mut effects));
                    }
                }
                _ = tick.tick() => self.state.handle(self.clock.now(), Input::Tick, &mut effects),
            }
            self.state.schedule(self.clock.now(), &mut effects);
            self.take(effects);
            if let Some(batch) = self.outbox.next(self.clock.now()) {
                self.committer.send(batch)?;
            }
        }
        self.finish().await;
        Ok(())
    }

    async fn finish(mut self) {
        let write = async {
            loop {
                if !self.outbox.is_writing() {
                    let Some(batch) = self.outbox.rest() else { break };
                    if self.committer.send(batch).is_err() {
                        break;
                    }
                }
                if self.committer.done().await.is_none() {
                    break;
                }
                let ready = self.outbox.written();
                ready.into_iter().for_each(|d| self.deliver(d));
            }
        };
        if tokio::time::timeout(LAST_WRITE_MAX, write).await.is_err() {
            tracing::warn!(
                "stopped before the last acknowledgements were written; their splits will be computed again"
            );
        }
        let sessions: Vec<_> = self.open.keys().copied().collect();
        sessions.into_iter().for_each(|s| self.end(s, &stopping()));
    }

    fn command(&mut self, command: Command, effects: &mut Vec<Effect>) {
        let now = self.clock.now();
        match command {
            Command::Begin { session, port, ended, input } => {
                self.open.insert(session, Open { port, ended, greeted: false });
                self.state.handle(now, input, effects);
            }
            Command::Input(input) => {
                if let Input::ConsumerGone { session } | Input::WorkerGone { session } = input {
                    self.open.remove(&session);
                }
                self.state.handle(now, input, effects);
            }
            // Whoever asked may be gone; then nobody minds that the answer is lost.
            Command::Find { name, reply } => drop(reply.send(self.state.job(&name).cloned())),
            Command::ListJobs { reply } => drop(reply.send(self.state.list_jobs())),
            Command::ListWorkers { reply } => drop(reply.send(self.state.list_workers(now))),
            Command::Create { record, splits, reply } => match self.state.create(now, *record, &splits, effects) {
                Ok(record) => self.answer(effects, Delivery::Created(reply, record)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Cancel { name, reply } => match self.state.cancel(now, &name, effects) {
                Ok(()) => self.answer(effects, Delivery::Cancelled(reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
        }
    }

    /// Answers a request once its effects are durable.
    fn answer(&mut self, effects: &mut Vec<Effect>, delivery: Delivery) {
        self.take(std::mem::take(effects));
        if let Some(delivery) = self.outbox.say(delivery) {
            self.deliver(delivery);
        }
    }

    fn take(&mut self, effects: Vec<Effect>) {
        let now = self.clock.now();
        for effect in effects {
            match effect {
                Effect::Persist(update) => self.outbox.update(now, update, true),
                Effect::Remember(update) => self.outbox.update(now, update, false),
                // Whether the disk is slow says nothing about whether this process lives.
                Effect::Worker(session, worker_event::Event::Heartbeat(_))
                | Effect::Consumer(session, consumer_event::Event::Heartbeat(_)) => {
                    if self.open.get(&session).is_some_and(|o| o.greeted) {
                        self.deliver(Delivery::Effect(effect));
                    }
                }
                effect => {
                    if let Some(delivery) = self.outbox.say(Delivery::Effect(effect)) {
                        self.deliver(delivery);
                    }
                }
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let (session, sent) = match delivery {
            Delivery::Created(reply, record) => return drop(reply.send(Ok(record))),
            Delivery::Cancelled(reply) => return drop(reply.send(Ok(()))),
            Delivery::Effect(Effect::End(session, error)) => return self.end(session, &error),
            Delivery::Effect(Effect::Consumer(session, event)) => (session, self.send_consumer(session, event)),
            Delivery::Effect(Effect::Worker(session, event)) => (session, self.send_worker(session, event)),
            Delivery::Effect(Effect::Persist(_) | Effect::Remember(_)) => return,
        };
        if !sent {
            self.end(session, &Error::unavailable("this session does not read what it is told"));
        }
    }

    /// Returns false when the peer does not keep up.
    fn send_consumer(&mut self, session: SessionId, event: consumer_event::Event) -> bool {
        let Some(open) = self.open.get_mut(&session) else { return true };
        open.greeted = true;
        let Port::Consumer(port) = &open.port else { return true };
        port.try_send(Ok(ConsumerEvent { event: Some(event) })).is_ok()
    }

    fn send_worker(&mut self, session: SessionId, event: worker_event::Event) -> bool {
        let Some(open) = self.open.get_mut(&session) else { return true };
        open.greeted = true;
        let Port::Worker(port) = &open.port else { return true };
        port.try_send(Ok(WorkerEvent { event: Some(event) })).is_ok()
    }

    /// Ends a session. Its task then says that it is gone, if the state does not know yet.
    fn end(&mut self, session: SessionId, error: &Error) {
        let Some(open) = self.open.remove(&session) else { return };
        let status = to_status(error);
        // A peer that does not read finds the stream ended instead.
        match open.port {
            Port::Consumer(port) => drop(port.try_send(Err(status))),
            Port::Worker(port) => drop(port.try_send(Err(status))),
        }
        open.ended.cancel();
    }
}
