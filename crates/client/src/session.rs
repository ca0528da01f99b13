//! The Consume session with the dispatcher: who holds what comes in, what was consumed goes out.
//!
//! A session that breaks is opened again for as long as the stream lives; what was assigned is fetched meanwhile. What
//! is said is decided in `talk`.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_proto::consumer_message::Message;
use forebay_proto::{ConsumerEvent, ConsumerMessage, Remote, attempt, client, leader, to_error};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::fetch::Fetcher;
use crate::talk::{Broken, HEARTBEAT, SILENCE_MAX, Talk};

/// Messages that may wait to be sent: more means that the dispatcher does not read.
const OUTBOX_MAX: usize = 4096;
/// How long the last word may take: a dispatcher may have to be started again first, or another to be elected.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(5);

/// One consumer's session.
pub(crate) struct Session {
    pub(crate) dispatcher: Remote,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) talk: Talk,
}

impl Session {
    /// Runs until the stream is finished, has failed, or is dropped. Fetches end with it.
    pub(crate) async fn run(mut self) {
        let mut fetches = JoinSet::new();
        loop {
            let broken = self.once(&mut fetches).await;
            let message = match &broken {
                Broken::Connection(error) | Broken::Refused(error) => error.message().to_owned(),
                Broken::Finished => String::new(),
            };
            let link = self.fetcher.link.clone();
            let pause = match link.update(|s| self.talk.broken(link.now(), s, broken)) {
                Ok(Some(pause)) => pause,
                Ok(None) => return,
                Err(error) => return link.fail(error),
            };
            tracing::warn!(dispatcher = self.dispatcher.address, error = message, "no session; trying again");
            // What is assigned is fetched meanwhile.
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

    async fn once(&mut self, fetches: &mut JoinSet<()>) -> Broken {
        match self.open(fetches).await {
            Ok(never) | Err(never) => never,
        }
    }

    async fn open(&mut self, fetches: &mut JoinSet<()>) -> Result<Broken, Broken> {
        let link = attempt(&self.dispatcher).await?;
        let (out, outbox) = mpsc::channel(OUTBOX_MAX);
        let out = Outbox(out);
        out.send(self.talk.attach(&mut self.fetcher.link.lock()))?;
        let said = |status: tonic::Status| refused(&status, &self.dispatcher.address);
        let mut client = client(link);
        let mut events = timely(client.consume(ReceiverStream::new(outbox))).await?.map_err(said)?.into_inner();
        let first = timely(events.message()).await?.map_err(said)?.and_then(|e| e.event);
        let link = &self.fetcher.link;
        link.update(|s| self.talk.attached(link.now(), s, first))?;
        self.serve(Some(out), &mut events, fetches).await
    }

    async fn serve(
        &mut self,
        mut out: Option<Outbox>,
        events: &mut Streaming<ConsumerEvent>,
        fetches: &mut JoinSet<()>,
    ) -> Result<Broken, Broken> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let link = self.fetcher.link.clone();
        let seat = link.lock().seat.clone();
        loop {
            tokio::select! {
                event = events.message() => match event.map_err(|s| refused(&s, &self.dispatcher.address))? {
                    None if out.is_none() => return Ok(Broken::Finished),
                    None => return Err(Error::unavailable("the dispatcher ended the session").into()),
                    Some(event) => {
                        let fetch = link.update(|s| self.talk.heard(link.now(), s, event.event));
                        // Whoever fetches from a worker that is not wanted any more need not wait for it.
                        link.room.notify_waiters();
                        if let Some(fetch) = fetch {
                            let fetcher = self.fetcher.clone();
                            fetches.spawn(async move { fetcher.fetch(fetch).await });
                        }
                    }
                },
                Some(_) = fetches.join_next() => {}
                () = link.to_say.notified() => {
                    if let Some(sender) = &out
                        && self.say(sender)?
                    {
                        // Half closed: the dispatcher has heard everything when it closes its half.
                        out = None;
                    }
                }
                _ = heartbeat.tick() => {
                    // Without the lock: whoever reads is not held up.
                    seat.look(link.now());
                    let beat = self.talk.beat(link.now(), &mut link.lock(), self.fetcher.ops())?;
                    if let Some(sender) = &out {
                        sender.send(beat)?;
                        if self.say(sender)? {
                            out = None;
                        }
                    }
                }
            }
        }
    }

    /// Says what there is to say; true when it was the last word.
    fn say(&self, out: &Outbox) -> Result<bool> {
        let link = &self.fetcher.link;
        let (messages, last) = Talk::say(link.now(), &mut link.lock());
        messages.into_iter().try_for_each(|message| out.send(message))?;
        Ok(last)
    }
}

/// What the dispatcher does not answer in time is broken.
async fn timely<T>(answer: impl Future<Output = T>) -> Result<T> {
    let answer = tokio::time::timeout(SILENCE_MAX, answer).await;
    answer.map_err(|_| Error::unavailable("the dispatcher accepted the session and said nothing"))
}

/// An error with details was written by the dispatcher; anything else is the connection's, and so is that another leads.
fn refused(status: &tonic::Status, address: &str) -> Broken {
    let error = to_error(status, address);
    match status.details().is_empty() || leader(&error).is_some() {
        true => Broken::Connection(error),
        false => Broken::Refused(error),
    }
}

struct Outbox(mpsc::Sender<ConsumerMessage>);

impl Outbox {
    fn send(&self, message: Message) -> Result<()> {
        let sent = self.0.try_send(ConsumerMessage { message: Some(message) });
        sent.map_err(|_| Error::unavailable("the dispatcher does not read its session"))
    }
}
