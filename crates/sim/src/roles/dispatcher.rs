//! The dispatcher's process: its machine, its disk, its sessions. A session has the number of its stream.

mod cuts;
pub(crate) mod node;

use forebay_core::ErrorKind;
use forebay_dispatcher::simulate::{Dispatcher, Output, worker_event};
use forebay_proto::{consumer_event, consumer_message, worker_message};

use crate::faults::planted::Planted;
use crate::net::payload::Payload;
use crate::net::streams::Kind;
use crate::roles::consumer::node::job_number;
use crate::roles::node::Node;
use crate::world::{Event, World};
use node::DispatcherTimer;

/// The interval of the actor's ticks.
const TICK: u64 = 50;
/// The pause before a failed write is retried, as in the committer.
const WRITE_AGAIN: u64 = 500;

impl World<'_> {
    pub(crate) fn dispatcher_starts(&mut self) {
        let mut disk = self.dispatcher.disk.clone();
        if self.planted == Some(Planted::AcksForgotten) {
            disk.forget_frontiers();
        }
        if self.planted == Some(Planted::EndsForgotten) {
            disk.forget_ends();
        }
        let now = self.ticks(Node::Dispatcher);
        let started = Dispatcher::start(self.scenario.timing, now, &disk);
        let Some(machine) = self.expect(Node::Dispatcher, started) else { return };
        self.begin_ledger();
        let jobs: Vec<_> = machine.jobs().into_iter().filter(|j| !self.is_cancelled(job_number(&j.name))).collect();
        for job in jobs {
            for c in &job.consumers {
                let written = self.dispatcher.disk.frontier(&job.name, c.consumer);
                if written != (c.epoch, c.ordinal) {
                    let found = (c.epoch, c.ordinal);
                    self.fail(
                        "SP-6",
                        format!(
                            "{} consumer {}: {written:?} was written, recovered is {found:?}",
                            job.name, c.consumer
                        ),
                    );
                }
            }
        }
        self.dispatcher.machine = Some(machine);
        self.later(TICK, DispatcherTimer::Tick);
        self.dispatcher_step();
    }

    pub(crate) fn dispatcher_ended(&mut self) {
        self.dispatcher.machine = None;
        self.forget_cuts();
        self.dispatcher.opening.clear();
        // A write under way at the crash is there as a whole, or not at all.
        if let Some(write) = self.dispatcher.writing.pop_front()
            && self.dice.percent(50)
        {
            self.dispatcher.disk.apply(&write);
        }
        self.dispatcher.writing.clear();
    }

    fn later(&mut self, after: u64, timer: DispatcherTimer) {
        self.at(self.now + after, Event::Dispatcher(self.life(Node::Dispatcher), timer));
    }

    pub(crate) fn dispatcher_timer(&mut self, timer: DispatcherTimer) {
        let now = self.ticks(Node::Dispatcher);
        match timer {
            DispatcherTimer::Tick => {
                if let Some(machine) = &mut self.dispatcher.machine {
                    machine.tick(now);
                }
                self.cancel_again();
                self.later(TICK, DispatcherTimer::Tick);
            }
            DispatcherTimer::Written if self.now < self.dispatcher.full => {
                self.felt("disk full");
                return self.later(WRITE_AGAIN, DispatcherTimer::Written);
            }
            DispatcherTimer::Written => {
                let Some(write) = self.dispatcher.writing.pop_front() else { return };
                self.note(0xd15c, || "a batch is durable".to_owned());
                self.dispatcher.disk.apply(&write);
                if self.planted != Some(Planted::ToldBeforeDurable)
                    && let Some(machine) = &mut self.dispatcher.machine
                {
                    machine.written();
                }
            }
        }
        self.dispatcher_step();
    }

    pub(crate) fn dispatcher_heard(&mut self, id: u64, payload: Payload) {
        let now = self.ticks(Node::Dispatcher);
        let Some(machine) = &mut self.dispatcher.machine else { return };
        match payload {
            Payload::Work(worker_message::Message::Hello(hello)) => {
                if let Err(error) = machine.hello(now, id, hello) {
                    self.close(id, 1, Payload::Failed(error));
                }
            }
            Payload::Work(message) => machine.worker(now, id, message),
            Payload::Consume(consumer_message::Message::Attach(attach)) => {
                if let Err(error) = machine.attach(now, id, attach) {
                    self.close(id, 1, Payload::Failed(error));
                }
                self.attached(id);
            }
            Payload::Consume(message) => machine.consumer(now, id, message),
            Payload::Open(definition) => {
                machine.find(id, &definition.name);
                self.dispatcher.opening.insert(id, definition);
            }
            Payload::HalfClosed => {
                // The machine decides when the consumer gets the confirmation.
                machine.consumer_gone(now, id);
            }
            Payload::Closed => self.dispatcher_lost(id),
            _ => self.fail("protocol", format!("the dispatcher was told {payload:?}")),
        }
        self.dispatcher_step();
    }

    /// Handles a new session. A message of a killed process may arrive after the last message of its successor, and
    /// attach the consumer again.
    fn attached(&mut self, id: u64) {
        let Some(Node::Consumer(i)) = self.net.pipes.get(&id).map(|pipe| pipe.ends[0].node) else { return };
        if self.consumers[i].done {
            self.consumers[i].heard_out = false;
        }
    }

    /// Handles the end of a session or a request on the other side.
    pub(crate) fn dispatcher_lost(&mut self, id: u64) {
        self.session_gone(id);
        self.close(id, 1, Payload::Closed);
        self.dispatcher_step();
    }

    fn session_gone(&mut self, id: u64) {
        let now = self.ticks(Node::Dispatcher);
        let Some(machine) = &mut self.dispatcher.machine else { return };
        // The stream may be gone already: then the other call has no effect.
        match self.net.pipes.get(&id).map(|p| p.kind) {
            Some(Kind::Work) => machine.worker_gone(now, id),
            Some(Kind::Consume) => machine.consumer_gone(now, id),
            Some(_) => {}
            None => {
                machine.worker_gone(now, id);
                machine.consumer_gone(now, id);
            }
        }
    }

    /// Does the actor's work after each command: sends messages, grants, writes.
    fn dispatcher_step(&mut self) {
        self.dispatcher_speaks();
        let now = self.ticks(Node::Dispatcher);
        let Some(machine) = &mut self.dispatcher.machine else { return };
        if let Some(write) = machine.schedule(now) {
            if self.planted == Some(Planted::ToldBeforeDurable) {
                machine.written();
            }
            self.dispatcher.writing.push_back(write);
            let (until, slow) = self.dispatcher.slow;
            let time = if self.now < until {
                self.felt("disk slow");
                slow
            } else {
                self.dice.within(1..self.scenario.write + 1)
            };
            self.later(time, DispatcherTimer::Written);
        }
        self.dispatcher_speaks();
        let checked = self.dispatcher.machine.as_ref().map_or(Ok(()), Dispatcher::check);
        self.expect(Node::Dispatcher, checked);
    }

    fn dispatcher_speaks(&mut self) {
        while let Some(said) = self.dispatcher.machine.as_mut().map(Dispatcher::drain_outputs).filter(|s| !s.is_empty())
        {
            said.into_iter().for_each(|said| self.dispatcher_says(said));
        }
    }

    fn dispatcher_says(&mut self, said: Output) {
        match said {
            Output::Worker(id, event) => {
                self.check_given_up(&event);
                if let worker_event::Event::Lease(lease) = &event {
                    self.check_durable(lease.token);
                    // A lease of a session that has just ended is not sent.
                    if let Some(Node::Worker(worker)) = self.net.pipes.get(&id).map(|pipe| pipe.ends[0].node) {
                        self.check_cut(worker, lease);
                    }
                }
                self.send(id, 1, Payload::ToWorker(event));
            }
            Output::Consumer(id, event) => {
                if let consumer_event::Event::Assigned(assigned) = &event {
                    self.check_durable(assigned.token);
                    if assigned.beside > 0 {
                        self.felt("splits raced");
                    }
                }
                self.send(id, 1, Payload::ToConsumer(event));
            }
            Output::End(id, error) => {
                self.felt("sessions ended by the dispatcher");
                self.session_gone(id);
                self.close(id, 1, Payload::Failed(error));
            }
            Output::Closed(id) => self.close(id, 1, Payload::Closed),
            Output::Found(id, Some(job)) => self.dispatcher_says(Output::Opened(id, Ok(job))),
            Output::Found(id, None) => {
                let now = self.ticks(Node::Dispatcher);
                let asked = self.dispatcher.opening.get(&id);
                if let (Some(job), Some(machine)) = (asked, &mut self.dispatcher.machine) {
                    machine.create(now, id, job);
                }
            }
            // Two simultaneous openers do not get the conflict: as in the real opener, one looks the job up again.
            Output::Opened(id, Err(error)) if error.kind() == ErrorKind::Conflict => {
                let asked = self.dispatcher.opening.get(&id);
                if let (Some(job), Some(machine)) = (asked, &mut self.dispatcher.machine) {
                    machine.find(id, &job.name);
                }
            }
            Output::Opened(id, opened) => {
                self.dispatcher.opening.remove(&id);
                if let Ok(job) = &opened {
                    self.dispatcher.cuts.jobs.insert(job.job, job_number(&job.name));
                }
                self.close(id, 1, Payload::Opened(opened));
            }
            Output::Cancelled(job, done) => self.cancelled(job_number(&job), &done),
        }
    }

    pub(crate) fn dispatcher_cancels(&mut self, job: &str) {
        let (now, is_still) = (self.ticks(Node::Dispatcher), self.paused(Node::Dispatcher) > self.now);
        if let Some(machine) = self.dispatcher.machine.as_mut().filter(|_| !is_still) {
            machine.cancel(now, job);
        }
    }

    /// Returns how many skipped samples the dispatcher has recorded since it began.
    pub(crate) fn dispatcher_counted(&self) -> Option<u64> {
        let now = self.ticks(Node::Dispatcher);
        self.dispatcher.machine.as_ref().map(|machine| machine.samples_skipped(now))
    }

    /// Checks that a grant is durable before any process is told of it.
    fn check_durable(&mut self, token: u64) {
        if !self.dispatcher.disk.has_granted(token) {
            self.fail("durable", format!("token {token} was told before it was written"));
        }
    }

    /// Checks that no split is leased, no consumer is attached, and every acknowledgement is known and written.
    pub(crate) fn check_dispatcher_base_line(&mut self) {
        let now = self.ticks(Node::Dispatcher);
        let Some(machine) = &mut self.dispatcher.machine else {
            return self.fail("I6", "there is no dispatcher".to_owned());
        };
        let mut wrong = Vec::new();
        for job in machine.jobs() {
            for c in job.consumers.iter().filter(|c| c.leased > 0 || c.attached) {
                wrong.push(format!("{} consumer {}: {c:?}", job.name, c.consumer));
            }
        }
        let workers = machine.workers(now);
        let leased = workers.iter().filter(|w| w.leases > 0);
        wrong.extend(leased.map(|w| format!("worker {} holds {} leases", w.worker, w.leases)));
        let known = workers.iter().filter(|w| w.lost_ms.is_none()).count();
        while let Some(write) = self.dispatcher.writing.pop_front().or_else(|| machine.last_batch()) {
            self.dispatcher.disk.apply(&write);
            machine.written();
        }
        let written = machine.check_written(&self.dispatcher.disk);
        wrong.extend(written.err().map(|e| e.to_string()));
        let refused = (0..self.workers.len()).filter(|i| self.is_refused(*i)).count();
        if known > self.workers.len() || known + refused < self.workers.len() {
            wrong.push(format!("{known} workers are known, and {} live", self.workers.len()));
        }
        for (i, setup) in self.scenario.consumers.iter().enumerate() {
            let name = crate::roles::consumer::node::job_name(setup.job);
            let end = (self.jobs[setup.job].definition.epochs, 0);
            let frontier = self.dispatcher.disk.frontier(&name, setup.index);
            if self.consumers[i].heard_out && frontier != end && !self.is_cancelled(setup.job) {
                wrong.push(format!("consumer {i} has said its last word, and its frontier is {frontier:?}"));
            }
        }
        if !wrong.is_empty() {
            self.fail("I6", wrong.join("; "));
        }
    }
}
