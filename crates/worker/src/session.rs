//! The Work session with the dispatcher: leases come in, room goes out. Reconnects for ever, keeping what it holds.
//!
//! Invariant: one session at a time. What is said is decided in `talk`.

use std::time::Duration;

use forebay_core::{Clock, Error, Result, SystemClock, Ticks};
use forebay_proto::worker_message::Message;
use forebay_proto::{Remote, WorkerEvent, WorkerMessage, attempt, client, to_error};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::talk::Talk;

/// Messages that may wait to be sent: more means that the dispatcher does not read.
const OUTBOX_MAX: usize = 256;
/// How long the dispatcher may take to welcome a worker.
const WELCOME_MAX: Duration = Duration::from_secs(30);

/// How often it is told that there is no session, while the cause is the same.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What was told last of a session that could not be had, and when.
type Told = Option<(String, Ticks)>;

/// The session and what it speaks for.
pub(crate) struct Session {
    pub(crate) dispatcher: Remote,
    pub(crate) talk: Talk,
    /// True once the worker leaves.
    pub(crate) leaving: watch::Receiver<bool>,
}

impl Session {
    /// Runs until it is dropped.
    ///
    /// # Errors
    /// Version, Invalid or PermissionDenied: what trying again will not mend.
    ///
    /// # Cancel safety
    /// Safe: the dispatcher sees the connection end.
    pub(crate) async fn run(mut self) -> Result<()> {
        let clock = SystemClock::default();
        let mut told = Told::None;
        loop {
            let error = match self.once(&clock, &mut told).await {
                Ok(()) => Error::unavailable("the dispatcher ended the session"),
                Err(e) => e,
            };
            let (message, held) = (error.message().to_owned(), self.talk.shelf.leases().len());
            let pause = self.talk.broken(error)?;
            let now = clock.now();
            if told.as_ref().is_none_or(|(last, at)| *last != message || now - *at >= TOLD_EVERY) {
                tracing::warn!(dispatcher = self.dispatcher.address, error = message, held, "no session; trying again");
                told = Some((message, now));
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&mut self, clock: &SystemClock, told: &mut Told) -> Result<()> {
        let link = attempt(&self.dispatcher).await?;
        let (out, outbox) = mpsc::channel(OUTBOX_MAX);
        let out = Outbox(out);
        out.send(self.talk.hello())?;
        let dispatcher = self.dispatcher.address.clone();
        let failed = |status: tonic::Status| to_error(&status, &dispatcher);
        let mut events = client(link).work(ReceiverStream::new(outbox)).await.map_err(failed)?.into_inner();
        let welcome = tokio::time::timeout(WELCOME_MAX, events.message()).await;
        let welcome =
            welcome.map_err(|_| Error::unavailable("the dispatcher accepted the session and said nothing"))?;
        let welcome = welcome.map_err(failed)?.and_then(|e| e.event);
        let every = self.talk.welcome(clock.now(), welcome)?;
        let worker = format!("{:032x}", self.talk.worker().0);
        tracing::info!(dispatcher = self.dispatcher.address, worker, "session open");
        *told = None;
        self.serve(clock, &out, &mut events, every).await.map_err(|e| match e {
            Broken::Status(status) => failed(status),
            Broken::Error(error) => error,
        })
    }

    async fn serve(
        &mut self,
        clock: &SystemClock,
        out: &Outbox,
        events: &mut tonic::Streaming<WorkerEvent>,
        every: Duration,
    ) -> Result<(), Broken> {
        let mut heartbeat = tokio::time::interval(every);
        let shelf = self.talk.shelf.clone();
        let mut leaving = *self.leaving.borrow_and_update();
        loop {
            if leaving {
                self.talk.leave();
            }
            while let Some(message) = self.talk.next() {
                out.send(message)?;
            }
            tokio::select! {
                event = events.message() => {
                    let Some(event) = event.map_err(Broken::Status)?.and_then(|e| e.event) else { return Ok(()) };
                    self.talk.heard(clock.now(), event);
                }
                () = shelf.meter.freed.notified() => {}
                _ = heartbeat.tick() => out.send(self.talk.beat(clock.now())?)?,
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

enum Broken {
    Status(tonic::Status),
    Error(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
