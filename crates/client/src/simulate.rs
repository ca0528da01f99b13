//! What the simulation drives of a consumer: the real window, session, fetches and reader.
//!
//! Not part of the public interface: only `crates/sim` uses it. Nothing is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{ConsumerIndex, Error, Result, Ticks};
use forebay_data::Chunk;
use forebay_exec::{Budget, Delivery, Executable, KnownSkips, Merge, Position, SkippedSample};
use forebay_plan::{Ending, Floor};
use forebay_proto::consumer_message::Message;
use forebay_proto::{JobDefinition, JobKey, Reader as ReaderStream, Return, Ticket, consumer_event};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::debts::{Debtor, Debts, Loan};
use crate::fetch::{After, Ended, Trial, classify};
use crate::finish::{columns, finish};
use crate::link::{Session, State};
use crate::reader::{Next, Reader};
use crate::seat::Seat;
use crate::steps::Steps;
use crate::talk::{Broken, Talk};
use crate::window::{Front, Window};

/// What local workers show, and their readers say, in the simulation.
const LOCAL_KEY: [u8; 16] = [1; 16];

/// How often a consumer says that it lives.
pub const HEARTBEAT: Duration = crate::talk::HEARTBEAT;
/// How long a session may take to begin.
pub const SILENCE_MAX: Duration = crate::talk::SILENCE_MAX;
/// How long the last word may take.
pub const FINISH_MAX: Duration = crate::session::FINISH_MAX;
/// How long a reader waits for ranks that have no reader.
const ABSENCE: Duration = Duration::from_secs(60);

/// A stream of a split's chunks that is to be opened.
#[derive(Debug, Clone)]
pub struct Fetching {
    /// Names it in later calls.
    pub id: u64,
    /// The worker.
    pub address: String,
    /// What to show there.
    pub ticket: Ticket,
}

/// How a stream of chunks ended.
#[derive(Debug)]
pub enum StreamEnd {
    /// With status OK: the split is complete.
    Complete,
    /// With an error that the worker wrote.
    Worker(Error),
    /// The connection broke, or was never there.
    Connection(Error),
    /// By this side: what the worker left to do on a chunk failed.
    Unfinished(Error),
    /// By this side: nobody wants it any more.
    Unwanted,
}

/// How a session ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// With an error that the dispatcher wrote.
    Refused(Error),
    /// The connection broke, or was never there, or the dispatcher ended it without a word.
    Connection(Error),
    /// After the last word.
    Finished,
}

/// What the user's `next` finds.
#[derive(Debug)]
pub enum Polled {
    /// A batch.
    Delivery(Box<Delivery>),
    /// Nothing yet.
    Wait,
    /// The last epoch is over.
    Over,
}

/// What a process has borrowed from one worker on its machine.
pub struct Borrower {
    debts: Arc<Debts>,
    said: UnboundedReceiver<Return>,
}

/// One stream on which something may be lent. Dropped, it has ended.
pub struct Borrowing(Debtor);

/// Something that was borrowed. Dropped, it is given back.
pub struct Borrowed {
    _loan: Loan,
}

impl Borrower {
    /// Creates the borrower that the worker numbered `reader`.
    pub fn new(reader: u64) -> Self {
        let (debts, said) = Debts::new(reader);
        Self { debts, said }
    }

    /// Begins a stream.
    pub fn stream(&self) -> Borrowing {
        Borrowing(self.debts.stream())
    }

    /// Returns what there is to say to the worker.
    pub fn said(&mut self) -> Vec<Return> {
        std::iter::from_fn(|| self.said.try_recv().ok()).collect()
    }
}

impl Borrowing {
    /// Returns what names it in the request.
    pub fn reader(&self) -> ReaderStream {
        self.0.reader()
    }

    /// Takes a loan that came on it.
    pub fn take(&mut self, loan: u64) -> Borrowed {
        Borrowed { _loan: self.0.take(loan) }
    }
}

/// How a job is read.
pub struct Options {
    /// Which consumer.
    pub consumer: u32,
    /// Whether splits come in order.
    pub ordered: bool,
    /// How many splits it has ahead.
    pub window: u32,
    /// How long `next` waits for a dispatcher.
    pub deadline: Duration,
    /// Where it goes on.
    pub from: Option<Position>,
    /// How many samples may be left out.
    pub budget: Budget,
    /// Those that were left out before it.
    pub known: Vec<SkippedSample>,
}

/// A consumer's state machines.
pub struct Consumer {
    state: State,
    talk: Talk,
    reader: Reader,
    tail: Arc<Executable>,
    trials: BTreeMap<u64, Trial>,
    fetches: u64,
    deadline: Duration,
    /// Whether `next` has waited since it last found something.
    waiting: bool,
    /// What was left out, and that nobody has asked for yet.
    lost: Vec<SkippedSample>,
    /// What ends the stream, once it is known of what was left out before that it is written down.
    ended: Option<Error>,
    /// Since when it waits for readers that are not there.
    missing: Option<Ticks>,
}

impl Consumer {
    /// Starts reading a job, as `ServiceStream::start`.
    ///
    /// # Errors
    /// Whatever preparing the tail gives.
    pub fn start(now: Ticks, job: &JobDefinition, tail: Arc<Executable>, options: Options) -> Result<Self> {
        let Options { consumer, ordered, window, deadline, from, budget, known } = options;
        let resume = from.is_some();
        let from = from.unwrap_or_default();
        let splits = tail.plan().num_splits(ConsumerIndex(consumer));
        let at = crate::window::Place { epoch: from.epoch, ordinal: from.split };
        let (epochs, ending) = (Some(job.epochs).filter(|&n| n > 0), Ending::from(job.ending()));
        let seat = Arc::new(Seat::beside(JobKey::from_bytes(&LOCAL_KEY)));
        let incoming = Window::new(at, from.chunk);
        let incoming = if ordered { incoming } else { incoming.in_any_order() };
        let mut state = State::new(incoming, seat, now);
        state.steps = (ending != Ending::Apart).then(|| Steps::new(job.consumers, from.epoch));
        let mut merge = Merge::new(tail.clone(), ConsumerIndex(consumer), &from)?;
        merge.set_budget(budget);
        merge.set_known_skips(KnownSkips::of(&known));
        Ok(Self {
            state,
            talk: Talk::new(job.job, consumer, window, resume, Vec::new()),
            reader: Reader::new(merge, &from, splits, epochs).ending(ending, job.consumers, &from),
            tail,
            trials: BTreeMap::new(),
            fetches: 0,
            deadline,
            waiting: false,
            lost: Vec::new(),
            ended: None,
            missing: None,
        })
    }

    /// The first message of a session.
    pub fn attach(&mut self) -> Message {
        self.talk.attach(&mut self.state)
    }

    /// The first event of a session.
    ///
    /// # Errors
    /// Internal when it is not that we are attached.
    pub fn attached(&mut self, now: Ticks, event: consumer_event::Event) -> Result<()> {
        self.talk.attached(now, &mut self.state, Some(event))
    }

    /// Takes a later event.
    pub fn heard(&mut self, now: Ticks, event: consumer_event::Event) -> Option<Fetching> {
        let fetch = self.talk.heard(now, &mut self.state, Some(event))?;
        self.fetches += 1;
        self.trials.insert(self.fetches, Trial::new(fetch));
        self.fetching(self.fetches)
    }

    /// Returns what there is to say, and whether it is the last word.
    pub fn say(&mut self, now: Ticks) -> (Vec<Message>, bool) {
        Talk::say(now, &mut self.state)
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub fn beat(&mut self, now: Ticks) -> Result<Message> {
        self.talk.beat(now, &mut self.state, Vec::new())
    }

    /// A session ended, or could not begin. Returns the pause before the next one; `None` when there is none.
    pub fn broken(&mut self, now: Ticks, end: SessionEnd) -> Option<Duration> {
        let broken = match end {
            SessionEnd::Refused(error) => Broken::Refused(error),
            SessionEnd::Connection(error) => Broken::Connection(error),
            SessionEnd::Finished => Broken::Finished,
        };
        self.talk.broken(now, &mut self.state, broken).unwrap_or_else(|error| {
            self.state.fatal.get_or_insert(error);
            None
        })
    }

    /// Says whether the last word was heard.
    pub fn is_over(&self) -> bool {
        matches!(self.state.session, Session::Over)
    }

    fn fetching(&self, id: u64) -> Option<Fetching> {
        let fetch = &self.trials.get(&id)?.fetch;
        let ticket = Ticket {
            job: self.talk.job,
            epoch: fetch.place.epoch,
            consumer: self.talk.consumer,
            ordinal: fetch.place.ordinal,
            token: fetch.token,
            from_chunk: fetch.from_chunk,
            key: JobKey::default(),
        };
        Some(Fetching { id, address: fetch.address.clone(), ticket })
    }

    /// Says whether a stream may take in a message now; `None` when nobody wants it any more.
    pub fn has_room(&self, id: u64) -> Option<bool> {
        self.state.room_for(&self.trials.get(&id)?.fetch)
    }

    /// Takes a chunk of a stream, on which `ops` row ops have run, and which weighs so many bytes; runs the others. Returns whether
    /// more is wanted.
    ///
    /// # Errors
    /// How the stream has ended: the chunk is cut nowhere, could not be finished, or is not the next one.
    pub fn chunk(&mut self, id: u64, index: u64, chunk: Chunk, ops: u32, bytes: usize) -> Result<bool, StreamEnd> {
        let Some(trial) = self.trials.get(&id) else { return Ok(false) };
        columns(&self.tail, ops).map_err(StreamEnd::Connection)?;
        let chunk = finish(&self.tail, chunk, ops).map_err(StreamEnd::Unfinished)?;
        self.state.window.chunk(&trial.fetch, index, chunk, bytes).map_err(StreamEnd::Connection)
    }

    /// Returns the index of the chunk that is wanted next, which a stream is then to bring.
    pub fn next_index(&mut self, id: u64) -> Option<u64> {
        self.state.window.again(&self.trials.get(&id)?.fetch).map(|fetch| fetch.from_chunk)
    }

    /// A stream ended. Returns what to open in its place.
    pub fn ended(&mut self, id: u64, end: StreamEnd) -> Option<Fetching> {
        let trial = self.trials.get_mut(&id)?;
        let ended = match end {
            StreamEnd::Complete => Ok(()),
            StreamEnd::Worker(error) => Err(classify(error)),
            StreamEnd::Connection(error) => Err(Ended::Worker(error)),
            StreamEnd::Unfinished(error) => Err(Ended::Split(error)),
            StreamEnd::Unwanted => Err(Ended::Unwanted),
        };
        match trial.after(&mut self.state, ended) {
            After::Again => self.fetching(id),
            After::Stop | After::Complain => {
                self.trials.remove(&id);
                None
            }
        }
    }

    /// The user comes back for more.
    pub fn returned(&mut self) {
        if let Some(place) = self.reader.returned() {
            self.state.say.ack = Some(place);
        }
    }

    /// Does what `next` does, without waiting.
    ///
    /// # Errors
    /// What ends the stream.
    pub fn poll(&mut self, now: Ticks) -> Result<Polled> {
        loop {
            if !self.state.is_settled() {
                return match &self.state.fatal {
                    Some(error) => Err(error.clone()),
                    None if self.state.is_alone(now, self.deadline) => Err(unanswered()),
                    None => Ok(Polled::Wait),
                };
            }
            if let Some(error) = self.ended.take() {
                return Err(error);
            }
            if self.reader.has_room() {
                let front = self.state.take_front();
                if !matches!(front, Front::Empty) {
                    if std::mem::take(&mut self.waiting) {
                        self.state.meter.set_waiting(now, false);
                    }
                    self.take(front);
                    continue;
                }
            }
            let floor = self.tell();
            match self.reader.next(floor)? {
                Next::Delivery(delivery) => {
                    self.state.meter.hand_out();
                    self.missing = None;
                    return Ok(Polled::Delivery(delivery));
                }
                Next::Over => return Ok(Polled::Over),
                Next::Epoch { ended, at } => {
                    self.report();
                    self.state.move_on(ended, at);
                    self.missing = None;
                }
                Next::Others { is_starved } => {
                    if let Some(error) = &self.state.fatal {
                        return Err(error.clone());
                    }
                    let is_missing = self.state.steps.as_ref().is_some_and(|steps| !steps.missing().is_empty());
                    let since = *self.missing.get_or_insert(now);
                    self.missing = is_missing.then_some(since);
                    if is_missing && now - since >= ABSENCE {
                        return Err(Error::unavailable("another reader did not come"));
                    }
                    return self.wait(now, is_starved);
                }
                Next::Front => {
                    if let Some(error) = &self.state.fatal {
                        return Err(error.clone());
                    }
                    let front = self.state.take_front();
                    if matches!(front, Front::Empty) {
                        return self.wait(now, true);
                    }
                    if std::mem::take(&mut self.waiting) {
                        self.state.meter.set_waiting(now, false);
                    }
                    self.take(front);
                }
            }
        }
    }

    fn report(&mut self) {
        let lost = self.reader.take_losses();
        self.state.report(&lost);
        self.lost.extend(lost);
    }

    /// Returns the samples that were left out since this was last asked for.
    pub fn take_losses(&mut self) -> Vec<SkippedSample> {
        std::mem::take(&mut self.lost)
    }

    fn take(&mut self, front: Front) {
        if let Front::Chunk(.., chunk) = &front {
            self.state.meter.merge(chunk.num_rows(), chunk.num_bytes());
        }
        self.ended = self.reader.take(front).err();
        self.report();
    }

    fn tell(&mut self) -> Floor {
        self.reader.find_end();
        let (Some((epoch, count, given)), Some(steps)) = (self.reader.progress(), &mut self.state.steps) else {
            return Floor::default();
        };
        steps.set(epoch, count, given)
    }

    fn wait(&mut self, now: Ticks, is_starved: bool) -> Result<Polled> {
        let is_lost = match is_starved {
            true => self.state.is_lost(now, self.deadline),
            false => self.state.is_alone(now, self.deadline),
        };
        if is_lost {
            return Err(unanswered());
        }
        if is_starved && !std::mem::replace(&mut self.waiting, true) {
            self.state.meter.set_waiting(now, true);
            self.state.say.ack = self.reader.waits().or(self.state.say.ack);
        }
        Ok(Polled::Wait)
    }

    /// Everything was read: the last word is to be said.
    pub fn finish(&mut self) {
        self.state.say.ack = Some(self.reader.over());
        self.state.say.finish = true;
    }

    /// Returns why nothing more comes.
    pub fn fatal(&self) -> Option<&Error> {
        self.state.fatal.as_ref()
    }

    /// Checks the window's invariants.
    ///
    /// # Errors
    /// Internal, naming what does not hold.
    pub fn check(&self) -> Result<()> {
        self.state.window.check()
    }
}

fn unanswered() -> Error {
    Error::unavailable("the dispatcher did not answer until the deadline")
}
