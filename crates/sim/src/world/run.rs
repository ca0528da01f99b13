//! Runs a world: takes the next event, and hands it to its process.
//!
//! The safety phase lasts as long as faults come; then everything heals, and all jobs must finish within a bound
//! (liveness phase); then all resources must be released (the base line).

use super::{Event, Outcome, Process, World};
use crate::roles::node::Node;

/// The time in ms, after everything healed and beside the remaining work, within which everything must be finished.
const LIVENESS_MAX: u64 = 90_000;
/// The time after the last consumer has finished within which everything must be released.
const SETTLE: u64 = 12_000;
/// The most events of one run: more mean that something goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;

impl World<'_> {
    pub(crate) fn run(mut self) -> Outcome {
        self.at(0, Event::Boot(Node::Dispatcher));
        for i in 0..self.workers.len() {
            self.at(0, Event::Boot(Node::Worker(i)));
        }
        for i in 0..self.consumers.len() {
            self.at(self.scenario.consumers[i].starts, Event::Boot(Node::Consumer(i)));
        }
        for (i, (at, _)) in self.scenario.faults.iter().enumerate() {
            self.at(*at, Event::Fault(i));
        }
        let bound = self.scenario.heals + LIVENESS_MAX + self.work();
        let mut settled = None;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            self.events += 1;
            self.event(event);
            if self.outcome.violation.is_some() {
                break;
            }
            if settled.is_none() && self.is_done() {
                settled = Some(self.now + SETTLE);
            }
            if settled.is_some_and(|settled| self.now >= settled) {
                self.check_base_line();
                break;
            }
            if settled.is_none() && (self.now > bound || self.events > EVENTS_MAX) {
                let left: Vec<_> = (0..self.consumers.len()).filter(|i| !self.consumers[*i].done).collect();
                let healed = self.scenario.heals;
                self.fail("I5", format!("consumers {left:?} have not finished, and all was well from {healed} ms on"));
                break;
            }
        }
        Outcome { events: self.events, time: self.now, ..self.outcome }
    }

    /// Returns whether all was read, and every process that should live does.
    fn is_done(&self) -> bool {
        let there = |i| self.process(Node::Worker(i)).alive;
        self.now >= self.scenario.heals
            && self.consumers.iter().all(|c| c.done)
            && (0..self.workers.len()).all(|i| there(i) && !self.workers[i].is_leaving())
    }

    /// Returns the time of all work if one thread after the other did it, in ms.
    fn work(&self) -> u64 {
        let chunk = self.scenario.workers.iter().map(|w| w.chunk).max().unwrap_or(0);
        let of = |c: &crate::faults::scenario::ConsumerSetup| {
            let items = self.jobs[c.job].expected[c.index as usize].items.len() as u64;
            // A chunk may yield no item; then the rows bound the number of chunks.
            (items + 200) * (c.step + 2 * chunk) / 4
        };
        self.scenario.consumers.iter().map(of).sum()
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Arrive(id, side) => self.arrive(id, side),
            Event::Reset(id, side) => self.reset(id, side),
            Event::GiveUp(id) => self.give_up(id),
            Event::KeepAlive(from, to) => self.keep_alive(from, to),
            Event::Boot(node) => self.boot(node),
            Event::Dispatcher(life, timer) => {
                if let Some(event) = self.in_time(Node::Dispatcher, life, timer, Event::Dispatcher) {
                    self.dispatcher_timer(event);
                }
            }
            Event::Worker(i, life, timer) => {
                if let Some(event) = self.in_time(Node::Worker(i), life, timer, |life, t| Event::Worker(i, life, t)) {
                    self.worker_timer(i, event);
                }
            }
            Event::Consumer(i, life, timer) => {
                if let Some(event) = self.in_time(Node::Consumer(i), life, timer, |life, t| Event::Consumer(i, life, t))
                {
                    self.consumer_timer(i, event);
                }
            }
            Event::Returned(lent) => self.returned(lent),
            Event::Fault(i) => self.strike(self.scenario.faults[i].1),
        }
    }

    /// Returns the timer if its process is there for it; a stopped process gets it later.
    fn in_time<T>(&mut self, node: Node, life: u32, timer: T, again: impl FnOnce(u32, T) -> Event) -> Option<T> {
        if !self.is_alive(node, life) {
            return None;
        }
        let paused = self.paused(node);
        if paused > self.now {
            self.at(paused, again(life, timer));
            return None;
        }
        Some(timer)
    }

    /// Starts a process in a node's place.
    fn boot(&mut self, node: Node) {
        if self.process(node).alive {
            return;
        }
        let clock = self.dice.within(0..100_000);
        let life = self.life(node) + 1;
        *self.process_mut(node) = Process { life, alive: true, paused: 0, silent: false, clock };
        self.note(u64::from(life), || format!("{node:?} starts"));
        self.back(node);
        match node {
            Node::Dispatcher => self.dispatcher_starts(),
            Node::Worker(i) => self.worker_starts(i),
            Node::Consumer(i) => self.consumer_starts(i),
        }
    }

    /// Ends a process; another starts in its place after `down`.
    pub(crate) fn end(&mut self, node: Node, silent: bool, down: Option<u64>) {
        let life = self.life(node);
        self.note(u64::from(silent), || format!("{node:?} ends"));
        let process = self.process_mut(node);
        (process.alive, process.silent, process.paused) = (false, silent, 0);
        match node {
            Node::Dispatcher => self.dispatcher_ended(),
            Node::Worker(i) => {
                self.workers[i].ended();
                self.lender_ended(i, life);
            }
            Node::Consumer(i) => {
                self.consumers[i].ended();
                self.borrower_ended(i);
            }
        }
        self.gone(node, life, silent);
        if let Some(down) = down {
            self.at(self.now + down, Event::Boot(node));
        }
    }
}
