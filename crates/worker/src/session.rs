//! The Work session with the dispatcher: leases come in, room goes out. Reconnects for ever, keeping what it holds.
//!
//! Invariants: one session at a time; a lease that was granted is kept until the dispatcher says otherwise, whatever
//! happens to the connection; silence for as long as a lease lasts counts as a broken connection. Time is monotonic.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, VERSION, WorkerId};
use forebay_proto::worker_event::Event;
use forebay_proto::worker_message::Message;
use forebay_proto::{
    Hello, Leaving, Want, Welcome, WorkerEvent, WorkerHeartbeat, WorkerMessage, attempt, client, to_error,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::shelf::Shelf;

/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_millis(500);
/// Messages that may wait to be sent: more means that the dispatcher does not read.
const OUTBOX_MAX: usize = 256;
/// How long the dispatcher may take to welcome a worker.
const WELCOME_MAX: Duration = Duration::from_secs(30);

/// The session and what it speaks for.
pub(crate) struct Session {
    pub(crate) dispatcher: String,
    pub(crate) worker: WorkerId,
    pub(crate) address: String,
    pub(crate) threads: usize,
    pub(crate) shelf: Arc<Shelf>,
    /// True once the worker leaves.
    pub(crate) leaving: watch::Receiver<bool>,
}

impl Session {
    /// Runs until it is dropped.
    ///
    /// # Errors
    /// Version or Invalid: what trying again will not mend.
    ///
    /// # Cancel safety
    /// Safe: the dispatcher sees the connection end.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match self.once(&mut pause).await {
                Ok(()) => Error::unavailable("the dispatcher ended the session"),
                Err(e) if matches!(e.kind(), ErrorKind::Version | ErrorKind::Invalid) => return Err(e),
                Err(e) => e,
            };
            let held = self.shelf.leases().len();
            tracing::warn!(dispatcher = self.dispatcher, error = error.message(), held, "no session; trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    async fn once(&mut self, pause: &mut Duration) -> Result<()> {
        let channel = attempt(&self.dispatcher).await?;
        let (out, outbox) = mpsc::channel(OUTBOX_MAX);
        let out = Outbox(out);
        out.send(Message::Hello(Hello {
            version: VERSION.to_owned(),
            worker: self.worker.0.to_be_bytes().to_vec(),
            address: self.address.clone(),
            threads: self.threads as u32,
            held: self.shelf.leases(),
        }))?;
        let dispatcher = self.dispatcher.clone();
        let failed = |status: tonic::Status| to_error(&status, &dispatcher);
        let mut events = client(channel).work(ReceiverStream::new(outbox)).await.map_err(failed)?.into_inner();
        let welcome = tokio::time::timeout(WELCOME_MAX, events.message()).await;
        let welcome =
            welcome.map_err(|_| Error::unavailable("the dispatcher accepted the session and said nothing"))?;
        let Some(Event::Welcome(welcome)) = welcome.map_err(failed)?.and_then(|e| e.event) else {
            return Err(Error::internal("the dispatcher's first event is not a welcome"));
        };
        *pause = PAUSE_FIRST;
        tracing::info!(dispatcher = self.dispatcher, worker = %format!("{:032x}", self.worker.0), "session open");
        self.serve(&out, &mut events, welcome).await.map_err(|e| match e {
            Broken::Status(status) => failed(status),
            Broken::Error(error) => error,
        })
    }

    async fn serve(
        &mut self,
        out: &Outbox,
        events: &mut tonic::Streaming<WorkerEvent>,
        welcome: Welcome,
    ) -> Result<(), Broken> {
        let every = Duration::from_millis(welcome.heartbeat_ms.max(10));
        let silence_max = Duration::from_millis(welcome.lease_ms).max(every * 3);
        let mut heartbeat = tokio::time::interval(every);
        let mut heard = Instant::now();
        let mut asked = Asked::default();
        let mut leaving = *self.leaving.borrow_and_update();
        if leaving {
            out.send(Message::Leaving(Leaving {}))?;
        }
        loop {
            if !leaving && let Some(splits) = asked.more(self.shelf.room()) {
                out.send(Message::Want(Want { splits }))?;
            }
            tokio::select! {
                event = events.message() => {
                    let Some(event) = event.map_err(Broken::Status)?.and_then(|e| e.event) else { return Ok(()) };
                    heard = Instant::now();
                    asked.heard(&event);
                    self.take(event);
                }
                () = self.shelf.meter.freed.notified() => {}
                _ = heartbeat.tick() => {
                    if heard.elapsed() > silence_max {
                        let silent = heard.elapsed().as_secs_f64();
                        return Err(Error::unavailable(format!("the dispatcher was silent for {silent:.1} s")).into());
                    }
                    let meter = &self.shelf.meter;
                    out.send(Message::Heartbeat(WorkerHeartbeat {
                        splits_done: meter.splits_done.load(Relaxed),
                        rows_done: meter.rows_done.load(Relaxed),
                        finished: self.shelf.finished(),
                    }))?;
                }
                Ok(()) = self.leaving.changed(), if !leaving => {
                    leaving = true;
                    out.send(Message::Leaving(Leaving {}))?;
                }
            }
        }
    }

    fn take(&self, event: Event) {
        match event {
            Event::Job(definition) => self.shelf.define(definition),
            Event::Lost(lost) => self.shelf.lost(&lost),
            Event::Lease(lease) => self.shelf.lease(&lease),
            Event::Consumed(consumed) => self.shelf.consumed(&consumed),
            Event::Revoke(revoke) => self.shelf.revoke(revoke.token),
            Event::Forget(forget) => self.shelf.forget(forget.job),
            Event::Welcome(_) | Event::Heartbeat(_) => {}
        }
    }
}

/// Splits that were asked for and have not come.
#[derive(Debug, Default)]
struct Asked(usize);

impl Asked {
    /// Returns how many more to ask for, given the room that there is.
    fn more(&mut self, room: usize) -> Option<u32> {
        let more = room.checked_sub(self.0).filter(|&n| n > 0)?;
        self.0 += more;
        Some(more as u32)
    }

    fn heard(&mut self, event: &Event) {
        if matches!(event, Event::Lease(_)) {
            self.0 = self.0.saturating_sub(1);
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
