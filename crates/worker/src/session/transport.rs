//! The Work stream with the dispatcher over gRPC: leases in, room out. It reconnects for ever and keeps the leases.
//!
//! Invariant: one session at a time. `protocol` decides what to send.

use std::time::Duration;

use forebay_core::{Clock, Error, Result, SystemClock, Ticks};
use forebay_proto::worker_message::Message;
use forebay_proto::{Remote, WorkerEvent, WorkerMessage, attempt, client, to_error};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::session::protocol::WorkerProtocol;

/// Messages that may wait to be sent. More means that the dispatcher does not read.
const OUTBOX_MAX: usize = 256;
/// How long the dispatcher may take to welcome a worker.
const WELCOME_MAX: Duration = Duration::from_secs(30);

/// How often a warning is repeated while the cause is the same.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The last warning, and when it was logged.
type Warned = Option<(String, Ticks)>;

/// The connection, and the protocol that it drives.
pub(crate) struct Session {
    pub(crate) dispatcher: Remote,
    pub(crate) protocol: WorkerProtocol,
    /// True once the worker leaves.
    pub(crate) leaving: watch::Receiver<bool>,
}

impl Session {
    /// Runs until it is dropped.
    ///
    /// # Errors
    /// Version, Invalid or PermissionDenied: errors that a retry does not fix.
    ///
    /// # Cancel safety
    /// Safe: the dispatcher sees the connection end.
    pub(crate) async fn run(mut self) -> Result<()> {
        let clock = SystemClock::default();
        let mut warned = Warned::None;
        loop {
            let error = match self.once(&clock, &mut warned).await {
                Ok(()) => Error::unavailable("the dispatcher ended the session"),
                Err(e) => e,
            };
            let (message, held) = (error.message().to_owned(), self.protocol.lease_table.leases().len());
            let pause = self.protocol.on_session_end(error)?;
            let now = clock.now();
            if warned.as_ref().is_none_or(|(last, at)| *last != message || now - *at >= WARN_EVERY) {
                tracing::warn!(
                    dispatcher = self.dispatcher.address,
                    error = message,
                    held,
                    "no session with the dispatcher; trying again"
                );
                warned = Some((message, now));
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&mut self, clock: &SystemClock, warned: &mut Warned) -> Result<()> {
        let link = attempt(&self.dispatcher).await?;
        let (out, outbox) = mpsc::channel(OUTBOX_MAX);
        let out = Outbox(out);
        out.send(self.protocol.hello())?;
        let dispatcher = self.dispatcher.address.clone();
        let failed = |status: tonic::Status| to_error(&status, &dispatcher);
        let mut events = client(link).work(ReceiverStream::new(outbox)).await.map_err(failed)?.into_inner();
        let welcome = tokio::time::timeout(WELCOME_MAX, events.message()).await;
        let welcome =
            welcome.map_err(|_| Error::unavailable("the dispatcher accepted the session and said nothing"))?;
        let welcome = welcome.map_err(failed)?.and_then(|e| e.event);
        let every = self.protocol.welcome(clock.now(), welcome)?;
        let worker = format!("{:032x}", self.protocol.worker().0);
        tracing::info!(dispatcher = self.dispatcher.address, worker, "session open");
        *warned = None;
        self.serve(clock, &out, &mut events, every).await.map_err(|e| match e {
            Ended::Status(status) => failed(status),
            Ended::Error(error) => error,
        })
    }

    async fn serve(
        &mut self,
        clock: &SystemClock,
        out: &Outbox,
        events: &mut tonic::Streaming<WorkerEvent>,
        every: Duration,
    ) -> Result<(), Ended> {
        let mut heartbeat = tokio::time::interval(every);
        let lease_table = self.protocol.lease_table.clone();
        let mut leaving = *self.leaving.borrow_and_update();
        loop {
            if leaving {
                self.protocol.leave();
            }
            while let Some(message) = self.protocol.next_message() {
                out.send(message)?;
            }
            tokio::select! {
                event = events.message() => {
                    let Some(event) = event.map_err(Ended::Status)?.and_then(|e| e.event) else { return Ok(()) };
                    self.protocol.on_event(clock.now(), event);
                }
                () = lease_table.stats.freed.notified() => {}
                _ = heartbeat.tick() => out.send(self.protocol.heartbeat(clock.now())?)?,
                Ok(()) = self.leaving.changed(), if !leaving => leaving = true,
            }
        }
    }
}

struct Outbox(mpsc::Sender<WorkerMessage>);

impl Outbox {
    fn send(&self, message: Message) -> Result<()> {
        let sent = self.0.try_send(WorkerMessage { message: Some(message) });
        sent.map_err(|_| Error::unavailable("the dispatcher does not read its session"))
    }
}

enum Ended {
    Status(tonic::Status),
    Error(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
