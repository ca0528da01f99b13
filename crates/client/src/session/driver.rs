//! Runs the Consume session with the dispatcher over gRPC: assignments in, acknowledgements out.
//!
//! Opens a broken session again for as long as the stream lives; the fetches go on meanwhile. `protocol` decides which
//! messages are sent.

#![expect(clippy::disallowed_methods, reason = "the driver gives the session's protocol its time")]

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_proto::consumer_event::Event;
use forebay_proto::consumer_message::Message;
use forebay_proto::{ConsumerEvent, ConsumerMessage, Remote, attempt, client, leader, to_error};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::fetch::fetcher::Fetcher;
use crate::session::protocol::{ConsumerProtocol, HEARTBEAT, SILENCE_MAX, SessionEnd};

/// Messages that may wait to be sent. A full outbox means that the dispatcher does not read.
const OUTBOX_MAX: usize = 4096;
/// Time for the last message: the dispatcher may have to restart first, or a new leader to be elected.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(5);

/// The session of one consumer.
pub(crate) struct SessionDriver {
    pub(crate) dispatcher: Remote,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) protocol: ConsumerProtocol,
}

impl SessionDriver {
    /// Runs until the stream is finished, has failed, or is dropped. The fetches end with it.
    pub(crate) async fn run(mut self) {
        let mut fetches = JoinSet::new();
        loop {
            let end = self.run_once(&mut fetches).await;
            let message = match &end {
                SessionEnd::Connection(error) | SessionEnd::Refused(error) => error.message().to_owned(),
                SessionEnd::Finished => String::new(),
            };
            let shared = self.fetcher.shared.clone();
            let pause = match shared.update(|s| self.protocol.session_ended(shared.now(), s, end)) {
                Ok(Some(pause)) => pause,
                Ok(None) => return,
                Err(error) => return shared.fail(error),
            };
            tracing::warn!(
                dispatcher = self.dispatcher.address,
                error = message,
                "no session with the dispatcher; trying again"
            );
            // The fetches go on meanwhile.
            let until = tokio::time::sleep(pause);
            tokio::pin!(until);
            loop {
                tokio::select! {
                    () = &mut until => break,
                    Some(_) = fetches.join_next() => {}
                }
            }
        }
    }

    async fn run_once(&mut self, fetches: &mut JoinSet<()>) -> SessionEnd {
        match self.open(fetches).await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn open(&mut self, fetches: &mut JoinSet<()>) -> Result<SessionEnd, SessionEnd> {
        let connection = attempt(&self.dispatcher).await?;
        let (out, outbox) = mpsc::channel(OUTBOX_MAX);
        let out = Outbox(out);
        out.send(self.protocol.attach(&mut self.fetcher.shared.lock()))?;
        let failed = |status: tonic::Status| session_end(&status, &self.dispatcher.address);
        let mut client = client(connection);
        let mut events = in_time(client.consume(ReceiverStream::new(outbox))).await?.map_err(failed)?.into_inner();
        let first = in_time(events.message()).await?.map_err(failed)?.and_then(|e| e.event);
        let shared = &self.fetcher.shared;
        shared.update(|s| self.protocol.attached(shared.now(), s, first))?;
        self.serve(Some(out), &mut events, fetches).await
    }

    async fn serve(
        &mut self,
        mut out: Option<Outbox>,
        events: &mut Streaming<ConsumerEvent>,
        fetches: &mut JoinSet<()>,
    ) -> Result<SessionEnd, SessionEnd> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let shared = self.fetcher.shared.clone();
        let local_worker = shared.lock().local_worker.clone();
        loop {
            tokio::select! {
                event = events.message() => match event.map_err(|s| session_end(&s, &self.dispatcher.address))? {
                    None if out.is_none() => return Ok(SessionEnd::Finished),
                    None => return Err(Error::unavailable("the dispatcher ended the session").into()),
                    Some(ConsumerEvent { event: Some(Event::StartTrace(start)) }) => {
                        shared.recordings.begin(self.dispatcher.clone(), start);
                    }
                    Some(event) => {
                        let assignment = shared.update(|s| self.protocol.take_event(shared.now(), s, event.event));
                        // The event may have voided the assignment of a fetch that waits.
                        shared.room.notify_waiters();
                        if let Some(assignment) = assignment {
                            let fetcher = self.fetcher.clone();
                            fetches.spawn(async move { fetcher.fetch(assignment).await });
                        }
                    }
                },
                Some(_) = fetches.join_next() => {}
                () = shared.to_send.notified() => {
                    if let Some(sender) = &out
                        && self.send(sender)?
                    {
                        // Closes this half. The dispatcher closes its half once it has received everything.
                        out = None;
                    }
                }
                _ = heartbeat.tick() => {
                    // Without the lock, so that `next` need not wait.
                    local_worker.run_probe(shared.now());
                    let costs = self.fetcher.op_costs();
                    let heartbeat = self.protocol.heartbeat(shared.now(), &mut shared.lock(), costs)?;
                    if let Some(sender) = &out {
                        sender.send(heartbeat)?;
                        if self.send(sender)? {
                            out = None;
                        }
                    }
                }
            }
        }
    }

    /// Sends the messages that wait; true if the last message was among them.
    fn send(&self, out: &Outbox) -> Result<bool> {
        let shared = &self.fetcher.shared;
        let (messages, last) = ConsumerProtocol::take_messages(shared.now(), &mut shared.lock());
        messages.into_iter().try_for_each(|message| out.send(message))?;
        Ok(last)
    }
}

/// Waits for an answer of the dispatcher, for at most [`SILENCE_MAX`].
async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T> {
    let answer = tokio::time::timeout(SILENCE_MAX, answer).await;
    answer.map_err(|_| Error::unavailable("the dispatcher accepted the session and said nothing"))
}

/// An error with details comes from the dispatcher, any other from the connection. The error that another dispatcher
/// leads counts as the connection's.
fn session_end(status: &tonic::Status, address: &str) -> SessionEnd {
    let error = to_error(status, address);
    match status.details().is_empty() || leader(&error).is_some() {
        true => SessionEnd::Connection(error),
        false => SessionEnd::Refused(error),
    }
}

struct Outbox(mpsc::Sender<ConsumerMessage>);

impl Outbox {
    fn send(&self, message: Message) -> Result<()> {
        let sent = self.0.try_send(ConsumerMessage { message: Some(message) });
        sent.map_err(|_| Error::unavailable("the dispatcher does not read its session"))
    }
}
