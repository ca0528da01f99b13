//! The one task that owns the dispatcher's core. Sessions and requests send it commands; it sends events through ports.
//!
//! It takes all waiting commands, then grants, then hands one batch to the committer: under load batches grow, and
//! flushes do not multiply. It never waits for a peer: a session whose port is full is ended. `core` makes all
//! decisions. Once its term is over, the actor decides and sends nothing more, however late it notices.

pub(super) mod core;
pub(super) mod handle;
pub(super) mod outbox;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Clock, Error, Result, Ticks};
use forebay_proto::{ConsumerEvent, WorkerEvent, not_leader, to_status};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::figures::{LeaderFigures, LedgerFigures, ScaleFigures};
use crate::leader::term::Term;
use crate::records::JobRecord;
use crate::state::{Effect, Input, SessionId, State};
use crate::store::Committer;
use core::{DispatcherCore, Output};
use handle::{Command, Port, stopping};

/// Commands that are taken at a time.
const TOGETHER_MAX: usize = 1024;
const TICK: Duration = Duration::from_millis(50);
/// How often the state's invariants are checked, if few splits are leased.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long writing the last batches may take when this process stops.
const LAST_WRITE_MAX: Duration = Duration::from_secs(3);

/// Why an actor stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// `shutdown` was cancelled.
    Stopped,
    /// Its term is over.
    Deposed,
}

struct Open {
    port: Port,
    ended: CancellationToken,
}

/// The answer to a request, with its sender. It is sent once its subject is durable.
enum Answer {
    Found(oneshot::Sender<Option<Arc<JobRecord>>>, Option<Arc<JobRecord>>),
    Created(oneshot::Sender<Result<Arc<JobRecord>>>, Result<Arc<JobRecord>>),
    /// The job was cancelled or forgotten.
    Ended(oneshot::Sender<Result<()>>, Result<()>),
    Records(oneshot::Sender<Vec<Arc<JobRecord>>>, Vec<Arc<JobRecord>>),
}

/// Owns the core.
pub(crate) struct Actor {
    core: DispatcherCore<Answer>,
    clock: Arc<dyn Clock>,
    inbox: mpsc::Receiver<Command>,
    committer: Committer,
    term: Arc<Term>,
    open: HashMap<SessionId, Open>,
    checked: Ticks,
    ledger: Written,
}

/// Figures of the ledger's writes.
struct Written {
    writes: u64,
    /// When the last batch became durable.
    last: Ticks,
    /// When the current batch was handed over.
    begun: Ticks,
}

impl Actor {
    pub(crate) fn new(
        state: State,
        recovered: Vec<Effect>,
        clock: Arc<dyn Clock>,
        inbox: mpsc::Receiver<Command>,
        committer: Committer,
        term: Arc<Term>,
    ) -> Self {
        let now = clock.now();
        let core = DispatcherCore::new(state, recovered, now);
        let ledger = Written { writes: 0, last: now, begun: now };
        Self { core, clock, inbox, committer, term, open: HashMap::new(), checked: now, ledger }
    }

    /// Runs until `shutdown`, then writes the last batches and ends all sessions. If its term is over before, it ends
    /// all sessions at once.
    ///
    /// # Errors
    /// Internal when the ledger's writer died.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<Ended> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut commands = Vec::with_capacity(TOGETHER_MAX);
        loop {
            let mut ticked = false;
            let mut written = None;
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.term.ended() => {}
                done = self.committer.done(), if self.core.is_writing() => written = Some(done),
                _ = self.inbox.recv_many(&mut commands, TOGETHER_MAX) => {}
                _ = tick.tick() => ticked = true,
            }
            // Checked after every wake-up, because any time may have passed since.
            if !self.term.holds() {
                self.end_all(&not_leader("the dispatcher no longer leads", ""));
                return Ok(Ended::Deposed);
            }
            if let Some(done) = written {
                done.ok_or_else(|| Error::internal("the ledger's writer died"))?;
                (self.ledger.writes, self.ledger.last) = (self.ledger.writes + 1, self.clock.now());
                self.core.batch_written();
            }
            for command in commands.drain(..) {
                self.command(command);
                self.deliver();
            }
            if ticked {
                self.tick();
            }
            let batch = self.core.schedule(self.clock.now());
            self.deliver();
            if let Some(batch) = batch {
                self.ledger.begun = self.clock.now();
                self.committer.send(batch)?;
            }
        }
        self.finish().await;
        Ok(Ended::Stopped)
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        self.core.input(now, Input::Tick);
        if now - self.checked < CHECK_EVERY {
            return;
        }
        self.checked = now;
        if let Err(violation) = self.core.check() {
            tracing::error!(%violation, "the dispatcher's state violates an invariant: please report this as a bug");
            debug_assert!(false, "{violation}");
        }
    }

    fn figures(&self, now: Ticks) -> LeaderFigures {
        let (scale, ledger) = (self.core.wanted(now), &self.ledger);
        let is_writing = self.core.is_writing();
        LeaderFigures {
            scale: ScaleFigures {
                wanted: Some(scale.wanted).filter(|&wanted| wanted > 0),
                workers: scale.workers,
                workers_max: scale.workers_max,
                kinds: scale.kinds.into_iter().map(|of| (of.kind, of.spot, of.wanted)).collect(),
            },
            state: self.core.figures(now),
            ledger: LedgerFigures {
                writes: ledger.writes,
                failures: self.committer.failures(),
                since_write: now - ledger.last,
                pending: if is_writing { now - ledger.begun } else { Duration::ZERO },
            },
            blob_bytes: None,
        }
    }

    async fn finish(mut self) {
        let write = async {
            loop {
                if !self.core.is_writing() {
                    let Some(batch) = self.core.last_batch() else { break };
                    if self.committer.send(batch).is_err() {
                        break;
                    }
                }
                // The leader of the next term will report this batch.
                if self.committer.done().await.is_none() || !self.term.holds() {
                    break;
                }
                self.core.batch_written();
                self.deliver();
            }
        };
        if tokio::time::timeout(LAST_WRITE_MAX, write).await.is_err() {
            tracing::warn!(
                "stopped before the last acknowledgements were written; their splits will be computed again"
            );
        }
        self.end_all(&stopping());
    }

    fn end_all(&mut self, error: &Error) {
        let sessions: Vec<_> = self.open.keys().copied().collect();
        sessions.into_iter().for_each(|s| self.end(s, error));
    }

    fn command(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Begin { session, port, ended, input } => {
                self.open.insert(session, Open { port, ended });
                self.core.begin(now, session, input);
            }
            Command::Input(input) => self.core.input(now, input),
            Command::Find { tenant, name, reply } => {
                self.core.find(&tenant, &name, |found| Answer::Found(reply, found));
            }
            // A caller that is gone needs no answer.
            Command::ListJobs { tenant, name, reply } => {
                drop(reply.send(self.core.list_jobs(now, tenant.as_deref(), &name)));
            }
            Command::GetScale { reply } => drop(reply.send(self.core.wanted(now))),
            Command::Figures { reply } => drop(reply.send(self.figures(now))),
            Command::ListWorkers { tenant, reply } => {
                drop(reply.send(self.core.list_workers(now, tenant.as_deref())));
            }
            Command::Create { record, splits, quota, reply } => {
                self.core.create(now, *record, &splits, quota, |created| Answer::Created(reply, created));
            }
            Command::Cancel { tenant, name, reply } => {
                self.core.cancel(now, &tenant, &name, |cancelled| Answer::Ended(reply, cancelled));
            }
            Command::Forget { tenant, name, reply } => {
                self.core.forget(now, &tenant, &name, |forgotten| Answer::Ended(reply, forgotten));
            }
            Command::Records { reply } => self.core.records(|records| Answer::Records(reply, records)),
        }
    }

    /// Sends all outputs.
    fn deliver(&mut self) {
        for output in self.core.drain_outputs() {
            match output {
                Output::Consumer(session, event) => self.send(session, |port| match port {
                    Port::Consumer(port) => port.try_send(Ok(ConsumerEvent { event: Some(event) })).is_ok(),
                    Port::Worker(_) => true,
                }),
                Output::Worker(session, event) => self.send(session, |port| match port {
                    Port::Worker(port) => port.try_send(Ok(WorkerEvent { event: Some(event) })).is_ok(),
                    Port::Consumer(_) => true,
                }),
                Output::End(session, error) => self.end(session, &error),
                Output::Closed(session) => drop(self.open.remove(&session)),
                Output::Answer(Answer::Found(reply, found)) => drop(reply.send(found)),
                Output::Answer(Answer::Created(reply, created)) => drop(reply.send(created)),
                Output::Answer(Answer::Ended(reply, ended)) => drop(reply.send(ended)),
                Output::Answer(Answer::Records(reply, records)) => drop(reply.send(records)),
            }
        }
    }

    /// Ends the session of a peer that does not read its events fast enough.
    fn send(&mut self, session: SessionId, send: impl FnOnce(&Port) -> bool) {
        if self.open.get(&session).is_some_and(|open| !send(&open.port)) {
            self.core.close(session);
            self.end(session, &Error::unavailable("this session does not read its messages"));
        }
    }

    /// Ends a session. Its task then reports that it is gone, if the state does not know yet.
    fn end(&mut self, session: SessionId, error: &Error) {
        let Some(open) = self.open.remove(&session) else { return };
        let status = to_status(error);
        // A peer that does not read finds the stream ended.
        match open.port {
            Port::Consumer(port) => drop(port.try_send(Err(status))),
            Port::Worker(port) => drop(port.try_send(Err(status))),
        }
        open.ended.cancel();
    }
}
