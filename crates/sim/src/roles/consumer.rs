//! A consumer's process: a training script that opens its job, reads it step by step, saves its position, and starts
//! again from there when it, or its stream, has ended. This file has its sessions.

mod fetches;
pub(crate) mod node;
mod trainer;

use std::rc::Rc;
use std::time::Duration;

use forebay_client::simulate::{Consumer, HEARTBEAT, Options, SILENCE_MAX, SessionEnd, StreamEnd};
use forebay_core::Error;
use forebay_proto::{JobDefinition, consumer_event};

use crate::faults::planted::Planted;
use crate::net::payload::Payload;
use crate::net::streams::Kind;
use crate::pipelines::pipeline::Pipeline;
use crate::roles::node::Node;
use crate::world::{Event, World};
use node::{ConsumerTimer, Saved, job_name, job_number};

/// The time for which `next` waits for a dispatcher, as a stream's default.
const DEADLINE: Duration = Duration::from_secs(60);
/// The pause before a job is opened again.
const ASK_AGAIN: u64 = 100;
/// The interval at which a waiting call of `next` checks whether to go on.
const POLL: u64 = 1_000;
/// The time that a job manager takes to restart a training script.
const START_AGAIN: std::ops::Range<u64> = 200..2_000;

impl World<'_> {
    /// Returns the pipeline of a job.
    pub(crate) fn job(&self, name: &str) -> Rc<Pipeline> {
        self.jobs[job_number(name)].clone()
    }

    pub(crate) fn consumer_starts(&mut self, i: usize) {
        let (setup, pipeline) = (self.scenario.consumers[i], self.jobs[self.scenario.consumers[i].job].clone());
        if self.is_cancelled(setup.job) {
            return self.leaves(i);
        }
        if setup.saves_first && self.consumers[i].saved.is_none() {
            self.consumers[i].saved = Some(Saved::default());
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
                match machine.heartbeat(now) {
                    Ok(beat) => {
                        if !consumer.half_closed {
                            self.send(id, 0, Payload::Consume(beat));
                        }
                        self.consumer_later(i, HEARTBEAT.as_millis() as u64, ConsumerTimer::Beat(id));
                    }
                    Err(error) => self.session_ended(i, SessionEnd::Connection(error)),
                }
            }
            ConsumerTimer::Finished(pipe) => self.finished(i, pipe),
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
                Payload::ToConsumer(mut event) if consumer.open => {
                    let mut is_end = false;
                    if let consumer_event::Event::Floor(floor) = &mut event {
                        let is_planted = self.planted == Some(Planted::FloorTooHigh);
                        floor.steps += u64::from(is_planted && floor.over);
                        is_end = floor.over;
                    }
                    let fetching = machine.take_event(now, event);
                    if is_end {
                        self.felt("epochs ended together");
                    }
                    if let Some(fetching) = fetching {
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
                Payload::Chunk(sent) => stream.arrived(sent),
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
        if self.is_cancelled(setup.job) {
            return self.leaves(i);
        }
        let pipeline = &self.jobs[setup.job];
        let (tail, budget) = (pipeline.tail.clone(), pipeline.budget);
        let is_simple = self.scenario.deaths == 0 && self.scenario.poison.is_none();
        let any_order = self.scenario.seed % 4 == 3 && is_simple && pipeline.may_come_in_any_order();
        let consumer = &mut self.consumers[i];
        if let Some(id) = consumer.asked.take() {
            self.close(id, 0, Payload::Closed);
        }
        let consumer = &mut self.consumers[i];
        let (from, saved) =
            (consumer.saved.as_ref().map(|s| s.position.clone()), consumer.saved.clone().unwrap_or_default());
        let Saved { position: began, cursor, left_out: known, got } = saved;
        consumer.left_out = known.clone();
        (consumer.any_order, consumer.got) = (any_order, got);
        let (consumer, window, ordered) = (setup.index, setup.window, !any_order);
        let options = Options { consumer, ordered, window, deadline: DEADLINE, from, budget, known };
        let started = Consumer::start(now, job, tail, options);
        let Some(machine) = self.expect(Node::Consumer(i), started) else { return };
        let consumer = &mut self.consumers[i];
        (consumer.job, consumer.began) = (Some(job.job), began);
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
        let pause = machine.session_ended(now, end);
        consumer.open = false;
        if let Some(id) = consumer.session.take() {
            self.close(id, 0, Payload::Closed);
        }
        match pause {
            Some(pause) => {
                self.felt("consumer sessions lost");
                self.consumer_later(i, pause.as_millis() as u64, ConsumerTimer::Connect);
            }
            None if self.consumers[i].machine.as_ref().is_some_and(Consumer::is_finished) => {
                self.consumers[i].heard_out = true;
            }
            None => {}
        }
    }

    /// Runs the reactions to any event: accepts chunks, delivers ready items to the user, reports to the dispatcher.
    fn consumer_step(&mut self, i: usize) {
        self.consumer_acts(i);
        self.gives_back(i);
    }

    fn consumer_acts(&mut self, i: usize) {
        let now = self.ticks(Node::Consumer(i));
        // Each delivery to the user makes room for more chunks.
        while self.take_chunks(i) | self.next(i) {}
        let consumer = &mut self.consumers[i];
        if consumer.finishing && consumer.heard_out {
            return self.leaves(i);
        }
        let Some(machine) = &mut consumer.machine else { return };
        let checked = machine.check();
        if let Some(id) = consumer.session.filter(|_| consumer.open && !consumer.half_closed) {
            let ((messages, last), finishing) = (machine.take_messages(now), consumer.finishing);
            consumer.half_closed = last;
            messages.into_iter().for_each(|message| self.send(id, 0, Payload::Consume(message)));
            match last {
                true => self.send(id, 0, Payload::HalfClosed),
                false if finishing => self.fail("I6", format!("consumer {i} has all, and does not say its last word")),
                false => {}
            }
        }
        self.expect(Node::Consumer(i), checked);
    }
}
