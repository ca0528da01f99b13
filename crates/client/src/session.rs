//! The Consume session with the dispatcher: who holds what comes in, what was consumed goes out.
//!
//! A session that breaks is opened again for as long as the stream lives; what was assigned is fetched meanwhile. It
//! begins at the first split that is not here as a whole, so a dispatcher that restarted learns from it what it may
//! have forgotten. What trying again will not mend (the job was cancelled, the consumer was taken, another version)
//! ends the stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result, VERSION};
use forebay_proto::consumer_event::Event;
use forebay_proto::consumer_message::Message;
use forebay_proto::{
    Ack, Assigned, Attach, ConsumerEvent, ConsumerHeartbeat, ConsumerMessage, EndEpoch, LostSample, Recorded, attempt,
    client, to_error,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::fetch::Fetcher;
use crate::link::Session as Is;
use crate::window::Place;

/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(500);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Silence after which a session counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Messages that may wait to be sent: more means that the dispatcher does not read.
const OUTBOX_MAX: usize = 4096;
/// A dispatcher that has not noticed yet that an earlier session ended calls the consumer taken. A fresh reader waits
/// this long for one that was just closed; one that goes on, for one whose machine or network broke.
const TAKEN_MAX: Duration = Duration::from_secs(1);
const TAKEN_RESUMED_MAX: Duration = Duration::from_secs(6);
/// A dispatcher that ends a session by itself this often, with nothing consumed in between, means it.
const ENDED_MAX: u32 = 3;
/// How long the last word may take.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(1);

/// One consumer's session.
pub(crate) struct Session {
    pub(crate) address: String,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) window: u32,
    /// Whether the stream goes on from a position.
    pub(crate) resume: bool,
    /// What a saved state says was left out.
    pub(crate) lost: Vec<LostSample>,
}

/// Why a session ended.
enum Broken {
    /// The connection, or the dispatcher as a whole.
    Connection(Error),
    /// The dispatcher said so.
    Refused(Error),
    /// Everything was said.
    Finished,
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

impl Session {
    /// Runs until the stream is finished, has failed, or is dropped. Fetches end with it.
    pub(crate) async fn run(mut self) {
        let mut fetches = JoinSet::new();
        let mut pause = PAUSE_FIRST;
        let (mut ended, mut ended_at) = (0, Place::default());
        let mut taken_since = None;
        loop {
            let broken = self.once(&mut fetches).await;
            let was_open = self.fetcher.link.update(|s| {
                let open = matches!(s.session, Is::Open);
                if open {
                    s.session = Is::Broken(Instant::now());
                }
                open
            });
            if was_open {
                (pause, taken_since) = (PAUSE_FIRST, None);
            }
            let error = match broken {
                Broken::Finished => return self.fetcher.link.update(|s| s.session = Is::Over),
                Broken::Connection(error) if error.kind() == ErrorKind::Unavailable => error,
                Broken::Refused(error) => {
                    let front = self.fetcher.link.lock().window.front();
                    ended = if front == ended_at { ended + 1 } else { 1 };
                    ended_at = front;
                    let since = *taken_since.get_or_insert_with(Instant::now);
                    let again = match error.kind() {
                        ErrorKind::Unavailable => ended < ENDED_MAX && error.get("attempts").is_none(),
                        ErrorKind::Conflict if self.resume => since.elapsed() < TAKEN_RESUMED_MAX,
                        ErrorKind::Conflict => since.elapsed() < TAKEN_MAX,
                        _ => false,
                    };
                    if !again {
                        return self.fetcher.link.fail(error);
                    }
                    error
                }
                Broken::Connection(error) => return self.fetcher.link.fail(error),
            };
            tracing::warn!(dispatcher = self.address, error = error.message(), "no session; trying again");
            // What is assigned is fetched meanwhile.
            let until = tokio::time::sleep(pause);
            tokio::pin!(until);
            loop {
                tokio::select! {
                    () = &mut until => break,
                    Some(_) = fetches.join_next() => {}
                }
            }
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    async fn once(&mut self, fetches: &mut JoinSet<()>) -> Broken {
        match self.open(fetches).await {
            Ok(never) | Err(never) => never,
        }
    }

    async fn open(&mut self, fetches: &mut JoinSet<()>) -> Result<Broken, Broken> {
        let channel = attempt(&self.address).await?;
        let (out, outbox) = mpsc::channel(OUTBOX_MAX);
        let out = Outbox(out);
        let at = {
            let mut state = self.fetcher.link.lock();
            // What was to be said of splits is said anew about what this session assigns.
            state.say.unreachable.clear();
            state.reports.restart();
            state.window.missing()
        };
        out.send(Message::Attach(Attach {
            version: VERSION.to_owned(),
            job: self.fetcher.job,
            consumer: self.fetcher.consumer.0,
            epoch: at.epoch,
            ordinal: at.ordinal,
            resume: self.resume,
            window: self.window,
            lost: std::mem::take(&mut self.lost),
        }))?;
        let said = |status: tonic::Status| refused(&status, &self.address);
        let mut client = client(channel);
        let mut events = timely(client.consume(ReceiverStream::new(outbox))).await?.map_err(said)?.into_inner();
        let first = timely(events.message()).await?.map_err(said)?.and_then(|e| e.event);
        if !matches!(first, Some(Event::Attached(_))) {
            return Err(Error::internal("the dispatcher's first event is not that we are attached").into());
        }
        // From now on this reader is known: when it comes back, it is the same one.
        self.resume = true;
        self.fetcher.link.update(|s| s.session = Is::Open);
        self.serve(Some(out), &mut events, fetches).await
    }

    async fn serve(
        &self,
        mut out: Option<Outbox>,
        events: &mut Streaming<ConsumerEvent>,
        fetches: &mut JoinSet<()>,
    ) -> Result<Broken, Broken> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                event = events.message() => match event.map_err(|s| refused(&s, &self.address))? {
                    None if out.is_none() => return Ok(Broken::Finished),
                    None => return Err(Error::unavailable("the dispatcher ended the session").into()),
                    Some(event) => {
                        heard = Instant::now();
                        match event.event {
                            Some(Event::Assigned(assigned)) => self.assigned(&assigned, fetches),
                            Some(Event::Recorded(Recorded { number })) => {
                                self.fetcher.link.update(|s| s.reports.recorded(number));
                            }
                            _ => {}
                        }
                    }
                },
                Some(_) = fetches.join_next() => {}
                () = self.fetcher.link.to_say.notified() => {
                    if let Some(sender) = &out
                        && self.say(sender)?
                    {
                        // Half closed: the dispatcher has heard everything when it closes its half.
                        out = None;
                    }
                }
                _ = heartbeat.tick() => {
                    if heard.elapsed() > SILENCE_MAX {
                        return Err(Error::unavailable("the dispatcher was silent").into());
                    }
                    let waited = std::mem::take(&mut self.fetcher.link.lock().waited);
                    if let Some(sender) = &out {
                        sender.send(Message::Heartbeat(ConsumerHeartbeat { batch_wait_ms: waited.as_millis() as u64 }))?;
                        self.say(sender)?;
                    }
                }
            }
        }
    }

    fn assigned(&self, assigned: &Assigned, fetches: &mut JoinSet<()>) {
        let place = Place { epoch: assigned.epoch, ordinal: assigned.ordinal };
        let fetch = self.fetcher.link.lock().window.assign(place, assigned.token, &assigned.address);
        if let Some(fetch) = fetch {
            let fetcher = self.fetcher.clone();
            fetches.spawn(async move { fetcher.fetch(fetch).await });
        }
    }

    /// Says what there is to say; true when it was the last word.
    fn say(&self, out: &Outbox) -> Result<bool> {
        while let Some(lost) = { self.fetcher.link.lock().reports.next() } {
            out.send(Message::Lost(lost))?;
        }
        let say = std::mem::take(&mut self.fetcher.link.lock().say);
        for epoch in say.ended {
            out.send(Message::EndEpoch(EndEpoch { epoch }))?;
        }
        for unreachable in say.unreachable {
            out.send(Message::Unreachable(unreachable))?;
        }
        if let Some(Place { epoch, ordinal }) = say.ack {
            out.send(Message::Ack(Ack { epoch, ordinal }))?;
        }
        Ok(say.finish)
    }
}

/// What the dispatcher does not answer in time is broken.
async fn timely<T>(answer: impl Future<Output = T>) -> Result<T> {
    let answer = tokio::time::timeout(SILENCE_MAX, answer).await;
    answer.map_err(|_| Error::unavailable("the dispatcher accepted the session and said nothing"))
}

/// An error with details was written by the dispatcher; anything else is the connection's.
fn refused(status: &tonic::Status, address: &str) -> Broken {
    let error = to_error(status, address);
    if status.details().is_empty() { Broken::Connection(error) } else { Broken::Refused(error) }
}

struct Outbox(mpsc::Sender<ConsumerMessage>);

impl Outbox {
    fn send(&self, message: Message) -> Result<()> {
        let sent = self.0.try_send(ConsumerMessage { message: Some(message) });
        sent.map_err(|_| Error::unavailable("the dispatcher does not read its session"))
    }
}
