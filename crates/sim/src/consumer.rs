//! A consumer's process: a training script that opens its job, reads it step by step, saves where it is, and is started
//! again from there when it, or its stream, has ended.
//!
//! It checks each thing that it gets against what the job must give (I1 to I4).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use forebay_client::simulate::{Consumer, FINISH_MAX, Fetching, HEARTBEAT, Polled, SILENCE_MAX, SessionEnd, StreamEnd};
use forebay_core::{Error, ErrorKind};
use forebay_data::Chunk;
use forebay_exec::{Delivery, Position};
use forebay_proto::JobDefinition;

use crate::net::{Kind, Payload};
use crate::pipeline::{Pipeline, digests};
use crate::planted::Planted;
use crate::scenario::Node;
use crate::worker::address;
use crate::world::{Event, World};

/// How long `next` waits for a dispatcher, as a stream's default.
const DEADLINE: Duration = Duration::from_secs(60);
/// The pause before a job is asked for again.
const ASK_AGAIN: u64 = 100;
/// What each chunk is taken to weigh: a few of them fill the buffer.
const CHUNK_BYTES: usize = 40 << 20;
/// How often a call of `next` that waits looks whether it should go on.
const POLL: u64 = 1_000;
/// How long a job manager takes to start a training script again.
const START_AGAIN: std::ops::Range<u64> = 200..2_000;

pub(crate) enum ConsumerTimer {
    Ask,
    Connect,
    Attached(u64),
    Beat(u64),
    /// The training step is done.
    Stepped,
    Poll,
    Finish,
}

#[derive(Default)]
pub(crate) struct ConsumerNode {
    machine: Option<Consumer>,
    asked: Option<u64>,
    session: Option<u64>,
    open: bool,
    half_closed: bool,
    fetches: BTreeMap<u64, Stream>,
    /// Whether `next` was called and has not returned, and whether a look at it is due.
    in_next: bool,
    polling: bool,
    finishing: bool,
    /// What the training step works on, and how many items came before it.
    delivered: Option<(Delivery, usize)>,
    /// Items that came.
    cursor: usize,
    /// Where it was saved, and how many items that is.
    saved: Option<(Position, usize)>,
    /// Places and the chunks of them that were taken, for planted bugs.
    taken: BTreeMap<(u64, u64), u64>,
    /// Whether it has once had everything, and whether its last word was heard.
    complete: bool,
    pub(crate) heard_out: bool,
    pub(crate) done: bool,
}

/// A stream of chunks.
struct Stream {
    id: u64,
    place: (u64, u64),
    /// Chunks that wait for room.
    waiting: VecDeque<(u64, Chunk)>,
    /// How it ended, after those.
    end: Option<StreamEnd>,
}

impl ConsumerNode {
    pub(crate) fn ended(&mut self) {
        *self = Self {
            saved: self.saved.take(),
            complete: self.complete,
            heard_out: self.heard_out,
            done: self.done,
            ..Self::default()
        };
    }
}

/// The name of a job, by number.
pub(crate) fn job_name(job: usize) -> String {
    format!("job {job}")
}

impl World<'_> {
    /// Returns the pipeline of a job.
    pub(crate) fn job(&self, name: &str) -> Rc<Pipeline> {
        let number = name.rsplit(' ').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
        self.jobs[number].clone()
    }

    pub(crate) fn consumer_starts(&mut self, i: usize) {
        let (setup, pipeline) = (self.scenario.consumers[i], self.jobs[self.scenario.consumers[i].job].clone());
        if setup.saves_first && self.consumers[i].saved.is_none() {
            self.consumers[i].saved = Some((Position::default(), 0));
        }
        self.ask(i, &pipeline.definition);
    }

    fn ask(&mut self, i: usize, definition: &JobDefinition) {
        let name = job_name(self.scenario.consumers[i].job);
        let job = JobDefinition { name, ..definition.clone() };
        let id = self.open(Node::Consumer(i), Node::Dispatcher, Kind::Open, Payload::Open(job));
        self.consumers[i].asked = Some(id);
    }

    fn consumer_later(&mut self, i: usize, after: u64, timer: ConsumerTimer) {
        self.at(self.now + after, Event::Consumer(i, self.life(Node::Consumer(i)), timer));
    }

    pub(crate) fn consumer_timer(&mut self, i: usize, timer: ConsumerTimer) {
        let now = self.ticks(Node::Consumer(i));
        let consumer = &mut self.consumers[i];
        let Some(machine) = &mut consumer.machine else {
            if matches!(timer, ConsumerTimer::Ask) {
                let pipeline = self.jobs[self.scenario.consumers[i].job].clone();
                self.ask(i, &pipeline.definition);
            }
            return;
        };
        match timer {
            ConsumerTimer::Ask => {}
            ConsumerTimer::Connect => {
                let attach = machine.attach();
                let id = self.open(Node::Consumer(i), Node::Dispatcher, Kind::Consume, Payload::Consume(attach));
                let consumer = &mut self.consumers[i];
                (consumer.session, consumer.open, consumer.half_closed) = (Some(id), false, false);
                self.consumer_later(i, SILENCE_MAX.as_millis() as u64, ConsumerTimer::Attached(id));
            }
            ConsumerTimer::Attached(id) => {
                if consumer.session == Some(id) && !consumer.open {
                    let error = Error::unavailable("the dispatcher accepted the session and said nothing");
                    self.session_ended(i, SessionEnd::Connection(error));
                }
            }
            ConsumerTimer::Beat(id) => {
                if consumer.session != Some(id) {
                    return;
                }
                match machine.beat(now) {
                    Ok(beat) => {
                        if !consumer.half_closed {
                            self.send(id, 0, Payload::Consume(beat));
                        }
                        self.consumer_later(i, HEARTBEAT.as_millis() as u64, ConsumerTimer::Beat(id));
                    }
                    Err(error) => self.session_ended(i, SessionEnd::Connection(error)),
                }
            }
            ConsumerTimer::Stepped => self.stepped(i),
            ConsumerTimer::Poll => {
                consumer.polling = false;
                self.polls(i);
            }
            ConsumerTimer::Finish => return self.leaves(i),
        }
        self.consumer_step(i);
    }

    pub(crate) fn consumer_heard(&mut self, i: usize, id: u64, payload: Payload) {
        let now = self.ticks(Node::Consumer(i));
        let consumer = &mut self.consumers[i];
        if consumer.asked == Some(id) {
            return match payload {
                Payload::Opened(Ok(job)) => self.opened(i, &job),
                _ => self.fail("protocol", format!("consumer {i} asked for its job and was told {payload:?}")),
            };
        }
        if consumer.session == Some(id) {
            let Some(machine) = &mut consumer.machine else { return };
            match payload {
                Payload::ToConsumer(event) if consumer.open => {
                    if let Some(fetching) = machine.heard(now, event) {
                        self.fetch(i, &fetching);
                    }
                }
                Payload::ToConsumer(event) => {
                    let attached = machine.attached(now, event);
                    consumer.open = true;
                    self.expect(Node::Consumer(i), attached);
                    self.consumer_later(i, 0, ConsumerTimer::Beat(id));
                }
                Payload::Failed(error) => self.session_ended(i, SessionEnd::Refused(error)),
                _ if consumer.half_closed => self.session_ended(i, SessionEnd::Finished),
                _ => {
                    let error = Error::unavailable("the dispatcher ended the session");
                    self.session_ended(i, SessionEnd::Connection(error));
                }
            }
        } else if let Some(stream) = consumer.fetches.get_mut(&id) {
            match payload {
                Payload::Chunk(index, chunk) => stream.waiting.push_back((index, chunk)),
                Payload::Complete => stream.end = Some(StreamEnd::Complete),
                Payload::Failed(error) => stream.end = Some(StreamEnd::Worker(error)),
                _ => stream.end = Some(StreamEnd::Connection(Error::unavailable("the stream ended"))),
            }
        }
        self.consumer_step(i);
    }

    pub(crate) fn consumer_lost(&mut self, i: usize, id: u64) {
        let consumer = &mut self.consumers[i];
        let error = Error::unavailable("the connection broke");
        if consumer.asked == Some(id) {
            consumer.asked = None;
            return self.consumer_later(i, ASK_AGAIN, ConsumerTimer::Ask);
        }
        if consumer.session == Some(id) {
            self.session_ended(i, SessionEnd::Connection(error));
        } else if let Some(stream) = consumer.fetches.get_mut(&id) {
            stream.end.get_or_insert(StreamEnd::Connection(error));
        }
        self.consumer_step(i);
    }

    fn opened(&mut self, i: usize, job: &JobDefinition) {
        let (now, setup) = (self.ticks(Node::Consumer(i)), self.scenario.consumers[i]);
        let tail = self.jobs[setup.job].tail.clone();
        let consumer = &mut self.consumers[i];
        if let Some(id) = consumer.asked.take() {
            self.close(id, 0, Payload::Closed);
        }
        let consumer = &mut self.consumers[i];
        let (from, cursor) = consumer.saved.clone().map_or((None, 0), |(position, cursor)| (Some(position), cursor));
        let started = Consumer::start(now, job, tail, setup.index, setup.window, DEADLINE, from);
        let Some(machine) = self.expect(Node::Consumer(i), started) else { return };
        let consumer = &mut self.consumers[i];
        (consumer.machine, consumer.cursor, consumer.in_next) = (Some(machine), cursor, true);
        self.consumer_later(i, 0, ConsumerTimer::Connect);
        self.polls(i);
    }

    fn polls(&mut self, i: usize) {
        let consumer = &mut self.consumers[i];
        if consumer.in_next && !std::mem::replace(&mut consumer.polling, true) {
            self.consumer_later(i, POLL, ConsumerTimer::Poll);
        }
    }

    fn session_ended(&mut self, i: usize, end: SessionEnd) {
        let now = self.ticks(Node::Consumer(i));
        let consumer = &mut self.consumers[i];
        let Some(machine) = &mut consumer.machine else { return };
        let pause = machine.broken(now, end);
        consumer.open = false;
        if let Some(id) = consumer.session.take() {
            self.close(id, 0, Payload::Closed);
        }
        match pause {
            Some(pause) => {
                self.felt("consumer sessions lost");
                self.consumer_later(i, pause.as_millis() as u64, ConsumerTimer::Connect);
            }
            None if self.consumers[i].machine.as_ref().is_some_and(Consumer::is_over) => {
                self.consumers[i].heard_out = true;
            }
            None => {}
        }
    }

    fn fetch(&mut self, i: usize, fetching: &Fetching) {
        let place = (fetching.ticket.epoch, fetching.ticket.ordinal);
        let mut ticket = fetching.ticket;
        let consumer = &mut self.consumers[i];
        if self.planted == Some(Planted::ReplayOff) && consumer.taken.contains_key(&place) {
            return;
        }
        consumer.taken.entry(place).or_default();
        let is_raced = consumer.fetches.values().any(|stream| stream.place == place);
        let twice = self.planted == Some(Planted::BothDelivered) && is_raced;
        if twice || self.planted == Some(Planted::DeduplicationOff) {
            ticket.from_chunk = 0;
        }
        let Some((worker, port)) = address(&fetching.address) else {
            return self.fail("protocol", format!("{:?} is no address", fetching.address));
        };
        let id = self.open(Node::Consumer(i), Node::Worker(worker), Kind::Get { port }, Payload::Get(ticket));
        let stream = Stream { id: fetching.id, place, waiting: VecDeque::new(), end: None };
        self.consumers[i].fetches.insert(id, stream);
    }

    /// What follows from whatever happened: chunks are taken, the user gets what is ready, the dispatcher is told.
    fn consumer_step(&mut self, i: usize) {
        // What the user takes makes room for more.
        while self.take_chunks(i) | self.next(i) {}
        let consumer = &mut self.consumers[i];
        if consumer.finishing && consumer.heard_out {
            return self.leaves(i);
        }
        let Some(machine) = &mut consumer.machine else { return };
        let checked = machine.check();
        if let Some(id) = consumer.session.filter(|_| consumer.open && !consumer.half_closed) {
            let (messages, last) = machine.say();
            consumer.half_closed = last;
            messages.into_iter().for_each(|message| self.send(id, 0, Payload::Consume(message)));
            if last {
                self.send(id, 0, Payload::HalfClosed);
            }
        }
        self.expect(Node::Consumer(i), checked);
    }

    /// Takes what has come and has room; returns whether anything has changed.
    fn take_chunks(&mut self, i: usize) -> bool {
        let pipes: Vec<_> = self.consumers[i].fetches.keys().copied().collect();
        pipes.into_iter().fold(false, |changed, pipe| self.take_from(i, pipe) | changed)
    }

    fn take_from(&mut self, i: usize, pipe: u64) -> bool {
        let mut changed = false;
        loop {
            let consumer = &mut self.consumers[i];
            let place = consumer.fetches.get(&pipe).map(|stream| stream.place);
            let is_raced = consumer.fetches.values().filter(|stream| Some(stream.place) == place).count() > 1;
            let (Some(machine), Some(stream)) = (&mut consumer.machine, consumer.fetches.get_mut(&pipe)) else {
                return changed;
            };
            if stream.waiting.is_empty() && stream.end.is_none() {
                return changed;
            }
            match machine.has_room(stream.id) {
                Some(false) => {
                    self.felt("streams held up");
                    return changed;
                }
                None => return self.fetch_ended(i, pipe, StreamEnd::Unwanted),
                Some(true) => changed = true,
            }
            let Some((mut index, chunk)) = stream.waiting.pop_front() else {
                let end = stream.end.take().unwrap_or(StreamEnd::Unwanted);
                return self.fetch_ended(i, pipe, end);
            };
            let taken = consumer.taken.entry(stream.place).or_default();
            let twice = self.planted == Some(Planted::BothDelivered) && is_raced;
            if twice || self.planted == Some(Planted::DeduplicationOff) {
                index = machine.next_index(stream.id).unwrap_or(index);
            }
            *taken += 1;
            match machine.chunk(stream.id, index, chunk, CHUNK_BYTES) {
                Ok(true) => self.send(pipe, 0, Payload::Taken),
                Ok(false) => return self.fetch_ended(i, pipe, StreamEnd::Unwanted),
                Err(error) => return self.fetch_ended(i, pipe, StreamEnd::Connection(error)),
            }
        }
    }

    fn fetch_ended(&mut self, i: usize, pipe: u64, end: StreamEnd) -> bool {
        let consumer = &mut self.consumers[i];
        let Some(stream) = consumer.fetches.remove(&pipe) else { return true };
        let again = consumer.machine.as_mut().and_then(|machine| machine.ended(stream.id, end));
        self.close(pipe, 0, Payload::Closed);
        if let Some(fetching) = again {
            self.felt("streams taken up again");
            self.fetch(i, &fetching);
        }
        true
    }

    /// Lets a call of `next` go on; returns whether it returned.
    fn next(&mut self, i: usize) -> bool {
        let now = self.ticks(Node::Consumer(i));
        let consumer = &mut self.consumers[i];
        let Some(machine) = consumer.machine.as_mut().filter(|_| consumer.in_next) else { return false };
        match machine.poll(now) {
            Ok(Polled::Wait) => return false,
            Ok(Polled::Delivery(delivery)) => {
                consumer.in_next = false;
                self.delivered(i, *delivery);
                let step = self.scenario.consumers[i].step;
                let time = self.dice.within(0..2 * step + 1);
                self.consumer_later(i, time, ConsumerTimer::Stepped);
            }
            Ok(Polled::Over) => {
                machine.finish();
                (consumer.in_next, consumer.finishing) = (false, true);
                self.check_complete(i);
                self.consumer_later(i, FINISH_MAX.as_millis() as u64, ConsumerTimer::Finish);
            }
            Err(error) => self.stream_failed(i, &error),
        }
        true
    }

    /// I1 to I4: what comes is what must come next.
    fn delivered(&mut self, i: usize, delivery: Delivery) {
        let setup = self.scenario.consumers[i];
        let expected = self.jobs[setup.job].expected[setup.index as usize].clone();
        let consumer = &mut self.consumers[i];
        let before = consumer.cursor;
        let mut wrong = None;
        for item in digests(&delivery) {
            if expected.get(consumer.cursor) != Some(&item) && wrong.is_none() {
                let (at, of) = (consumer.cursor, expected.len());
                wrong = Some(match expected.iter().position(|e| *e == item) {
                    Some(was) if was < at => {
                        ("I2", format!("consumer {i} got item {was} again, where item {at} of {of} was due"))
                    }
                    Some(is) => ("I1", format!("consumer {i} got item {is}, where item {at} of {of} was due")),
                    None => (
                        "I3",
                        format!("consumer {i} got an item that the job does not give, where item {at} of {of} was due"),
                    ),
                });
            }
            consumer.cursor += 1;
        }
        consumer.delivered = Some((delivery, before));
        let cursor = consumer.cursor as u64;
        self.note(cursor, || format!("consumer {i} has {cursor} items"));
        if let Some((invariant, what)) = wrong {
            self.fail(invariant, what);
        }
    }

    fn stepped(&mut self, i: usize) {
        let setup = self.scenario.consumers[i];
        let saves = self.dice.percent(setup.saves);
        let consumer = &mut self.consumers[i];
        let Some(machine) = consumer.machine.as_mut() else { return };
        let Some((delivery, before)) = consumer.delivered.take() else { return };
        machine.returned();
        consumer.in_next = true;
        if saves {
            // Of single samples, some may not have been used.
            let rows = delivery.chunk.num_rows();
            let used = if delivery.batched { rows } else { self.dice.index(rows + 1) };
            let items = if delivery.batched { 1 } else { used };
            self.consumers[i].saved = Some((delivery.position_after(used), before + items));
        }
        self.polls(i);
    }

    fn check_complete(&mut self, i: usize) {
        let setup = self.scenario.consumers[i];
        let (got, due) = (self.consumers[i].cursor, self.jobs[setup.job].expected[setup.index as usize].len());
        self.consumers[i].complete = true;
        if got != due {
            self.fail("I1", format!("consumer {i} was told that this is all after {got} of {due} items"));
        }
    }

    /// The stream ended with an error: one that may come of faults makes the script start again from what it saved.
    fn stream_failed(&mut self, i: usize, error: &Error) {
        self.felt("streams that failed");
        self.note(error.kind() as u64, || format!("consumer {i} failed: {error}"));
        let job = self.scenario.consumers[i].job;
        let all_complete =
            || self.scenario.consumers.iter().zip(&self.consumers).all(|(s, c)| s.job != job || c.complete);
        match error.kind() {
            // Whoever has saved nothing, and comes back when all was read, is told so.
            ErrorKind::Closed if all_complete() => return self.leaves(i),
            ErrorKind::Data if self.is_poison(error) => return self.leaves(i),
            ErrorKind::Unavailable | ErrorKind::Conflict if !self.scenario.faults.is_empty() => {}
            _ => self.fail("I5", format!("consumer {i} ended with {error}")),
        }
        let down = self.dice.within(START_AGAIN);
        self.end(Node::Consumer(i), false, Some(down));
    }

    /// Says whether a split was given up for deaths that were deaths: each of another worker, and none that lives.
    fn is_poison(&mut self, error: &Error) -> bool {
        let workers: BTreeSet<_> = error.get("workers").unwrap_or_default().split(", ").collect();
        let died = |name: &&str| {
            let id = name.split(' ').next().and_then(|id| u128::from_str_radix(id, 16).ok()).unwrap_or_default();
            let (life, number) = ((id >> 64) as u32, id as u64 as usize);
            number > 0 && !self.is_alive(Node::Worker(number - 1), life)
        };
        let all_died = workers.len() > 2 && workers.iter().all(died);
        self.felt("splits given up");
        all_died
    }

    /// Everything was read: the process ends.
    fn leaves(&mut self, i: usize) {
        self.consumers[i].done = true;
        self.end(Node::Consumer(i), false, None);
    }

    /// What is left when all is done.
    pub(crate) fn check_base_line(&mut self) {
        self.check_dispatcher_base_line();
        self.check_workers_base_line();
        // An attempt that was never answered, and that nobody waits for, is no stream.
        let vain = |p: &crate::net::Pipe| !p.accepted && !p.ends[0].open;
        let works = |p: &crate::net::Pipe| p.kind == Kind::Work && p.ends.iter().all(|e| self.is_alive(e.node, e.life));
        let alive = |p: &crate::net::Pipe| works(p) || vain(p);
        let left: Vec<_> =
            self.net.pipes.iter().filter(|(_, p)| !alive(p)).map(|(id, p)| (*id, p.kind, p.ends)).collect();
        if !left.is_empty() {
            self.fail("I6", format!("streams that nobody has closed: {left:?}"));
        }
    }
}
