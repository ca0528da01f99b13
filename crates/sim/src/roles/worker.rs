//! A worker's process: its machine, threads that compute in virtual time, and the streams that it serves.

pub(crate) mod node;
mod readers;
mod threads;

use forebay_core::Error;
use forebay_proto::{OneReader, worker_event};
use forebay_worker::simulate::{LEASE_WAIT_MAX, LEAVE_MAX, Worker};

use crate::faults::planted::Planted;
use crate::net::payload::Payload;
use crate::net::streams::Kind;
use crate::roles::node::Node;
use crate::world::{Event, World};
use node::{Serving, WorkerTimer};

/// The time for which a worker waits for its welcome, as its session does.
const WELCOME_MAX: u64 = 30_000;
/// The interval at which a leaving worker checks whether it holds anything.
const LEAVE_LOOK: u64 = 20;

impl World<'_> {
    pub(crate) fn port(&self, node: Node) -> Option<u32> {
        match node {
            Node::Worker(i) => self.workers[i].port(),
            _ => None,
        }
    }

    /// Returns the machine that lends memory at a worker, if its process is there.
    pub(crate) fn lender(&mut self, i: usize) -> Option<&mut Worker> {
        self.workers[i].machine.as_mut()
    }

    pub(crate) fn worker_starts(&mut self, i: usize) {
        let (setup, life) = (self.scenario.workers[i], self.life(Node::Worker(i)));
        let worker = &mut self.workers[i];
        worker.port = if setup.same_address { 1 } else { life };
        let secret = u128::from(life) << 64 | (i as u128 + 1);
        let address = format!("w{i}:{}", worker.port);
        // The first job to be recorded; until then the local worker is refused, and retries.
        let only = setup.local.then_some(OneReader { job: 1, consumer: 0 });
        worker.machine = Some(Worker::new(secret, address, setup.threads, setup.slots, only));
        worker.free = setup.threads as isize;
        self.worker_later(i, 0, WorkerTimer::Connect);
    }

    /// Lets a worker leave: it accepts nothing new, serves the splits that it holds, and ends.
    pub(crate) fn worker_leaves(&mut self, i: usize, down: u64) {
        let worker = &mut self.workers[i];
        let Some(machine) = worker.machine.as_mut().filter(|_| worker.leaving.is_none()) else { return };
        machine.leave();
        worker.leaving = Some((self.now, down));
        self.worker_later(i, LEAVE_LOOK, WorkerTimer::Leave);
        self.worker_step(i);
    }

    fn worker_later(&mut self, i: usize, after: u64, timer: WorkerTimer) {
        self.at(self.now + after, Event::Worker(i, self.life(Node::Worker(i)), timer));
    }

    pub(crate) fn worker_timer(&mut self, i: usize, timer: WorkerTimer) {
        let now = self.ticks(Node::Worker(i));
        let worker = &mut self.workers[i];
        let Some(machine) = &mut worker.machine else { return };
        match timer {
            WorkerTimer::Connect => {
                let hello = machine.hello();
                let id = self.open(Node::Worker(i), Node::Dispatcher, Kind::Work, Payload::Work(hello));
                self.workers[i].session = Some(id);
                self.worker_later(i, WELCOME_MAX, WorkerTimer::Welcome(id));
            }
            WorkerTimer::Welcome(id) => {
                if worker.session == Some(id) && worker.every.is_none() {
                    let error = Error::unavailable("the dispatcher accepted the session and said nothing");
                    self.worker_session_ended(i, error);
                }
            }
            WorkerTimer::Beat(id) => {
                let Some(every) = worker.every.filter(|_| worker.session == Some(id)) else { return };
                match machine.beat(now) {
                    Ok(beat) => {
                        self.send(id, 0, Payload::Work(beat));
                        self.worker_later(i, every, WorkerTimer::Beat(id));
                    }
                    Err(error) => self.worker_session_ended(i, error),
                }
            }
            WorkerTimer::Prepared(job, failed) => {
                let ready = if failed { Err(Error::unavailable("the storage does not answer")) } else { Ok(()) };
                machine.prepared(&job, ready);
            }
            WorkerTimer::Computed(computed) => self.computed(i, computed),
            WorkerTimer::Knock | WorkerTimer::Waited => {}
            WorkerTimer::Leave => {
                let Some((since, down)) = worker.leaving else { return };
                if machine.leases().is_empty() || self.now - since >= LEAVE_MAX.as_millis() as u64 {
                    return self.end(Node::Worker(i), false, Some(down));
                }
                self.worker_later(i, LEAVE_LOOK, WorkerTimer::Leave);
            }
        }
        self.worker_step(i);
    }

    pub(crate) fn worker_heard(&mut self, i: usize, id: u64, payload: Payload) {
        let now = self.ticks(Node::Worker(i));
        let worker = &mut self.workers[i];
        if worker.machine.is_none() {
            return;
        }
        match payload {
            Payload::ToWorker(event) if worker.session == Some(id) => {
                worker.account(&event);
                let Some(machine) = &mut worker.machine else { return };
                if worker.every.is_some() {
                    let revoke = matches!(event, worker_event::Event::Revoke(_));
                    if !(revoke && self.planted == Some(Planted::RevokesIgnored)) {
                        machine.heard(now, event);
                    }
                } else {
                    let welcomed = machine.welcome(now, event);
                    let Some(every) = self.expect(Node::Worker(i), welcomed) else { return };
                    self.workers[i].every = Some(every.as_millis() as u64);
                    self.worker_later(i, 0, WorkerTimer::Beat(id));
                }
            }
            Payload::Failed(error) if worker.session == Some(id) => self.worker_session_ended(i, error),
            Payload::Closed if worker.session == Some(id) => {
                self.worker_session_ended(i, Error::unavailable("the dispatcher ended the session"));
            }
            Payload::Get(ticket, of) => {
                let wait = LEASE_WAIT_MAX.as_millis() as u64;
                worker.serving.insert(id, Serving::Knocking(ticket, self.now + wait, of));
                self.worker_later(i, wait, WorkerTimer::Knock);
            }
            Payload::Taken => {
                if let Some(Serving::Open(_, _, credit, _)) = worker.serving.get_mut(&id) {
                    *credit += 1;
                }
            }
            Payload::Closed => {
                self.unserve(i, id);
                self.close(id, 1, Payload::Closed);
            }
            _ => self.fail("protocol", format!("worker {i} was told {payload:?}")),
        }
        self.worker_step(i);
    }

    pub(crate) fn worker_lost(&mut self, i: usize, id: u64) {
        if self.workers[i].session == Some(id) {
            self.worker_session_ended(i, Error::unavailable("the connection broke"));
        }
        self.unserve(i, id);
        self.worker_step(i);
    }

    fn worker_session_ended(&mut self, i: usize, error: Error) {
        let worker = &mut self.workers[i];
        let Some(machine) = &mut worker.machine else { return };
        let pause = machine.broken(error);
        worker.every = None;
        if let Some(id) = worker.session.take() {
            self.close(id, 0, Payload::Closed);
        }
        self.felt("worker sessions lost");
        if let Some(pause) = self.expect(Node::Worker(i), pause) {
            self.worker_later(i, pause.as_millis() as u64, WorkerTimer::Connect);
        }
    }

    /// Runs the reactions to any event: starts work, serves consumers, reports room.
    fn worker_step(&mut self, i: usize) {
        loop {
            let Some(todo) = self.workers[i].machine.as_ref().map(Worker::todo) else { return };
            let idle = todo.is_empty();
            todo.into_iter().for_each(|todo| self.todo(i, todo));
            self.look_again(i);
            self.compute(i);
            let serving: Vec<_> = self.workers[i].serving.keys().copied().collect();
            serving.into_iter().for_each(|id| self.serve(i, id));
            if idle {
                break;
            }
        }
        let worker = &mut self.workers[i];
        let Some(machine) = &mut worker.machine else { return };
        if let (Some(id), Some(_)) = (worker.session, worker.every) {
            let said: Vec<_> = std::iter::from_fn(|| machine.say()).collect();
            let checked = machine.check();
            self.expect(Node::Worker(i), checked);
            said.into_iter().for_each(|message| self.send(id, 0, Payload::Work(message)));
        }
    }

    /// Checks that workers hold nothing.
    pub(crate) fn check_workers_base_line(&mut self) {
        for i in 0..self.workers.len() {
            let Some(machine) = &self.workers[i].machine else {
                self.fail("I6", format!("worker {i} is not there"));
                continue;
            };
            let (leases, held, book) = (machine.leases(), machine.held(), self.workers[i].book.len());
            if !leases.is_empty() || held != (0, 0) || book > 0 || !self.workers[i].serving.is_empty() {
                self.fail("I6", format!("worker {i} holds {leases:?}, {held:?} (bytes, open), account {book}"));
            }
        }
    }
}
