//! The simulated world: virtual time, living processes, and the next event. One thread, one order of events.
//!
//! The safety phase lasts as long as faults come; then everything heals, and all jobs must finish within a bound
//! (liveness phase); then all resources must be released (the base line).

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::Ticks;
use forebay_core::rng::mix64;

use crate::catalogue::Catalogue;
use crate::consumer::{ConsumerNode, ConsumerTimer};
use crate::dice::Dice;
use crate::dispatcher::{DispatcherNode, DispatcherTimer};
use crate::fault::Node;
use crate::lending::{Lending, LentTo};
use crate::losses::Losses;
use crate::net::Net;
use crate::pipeline::Pipeline;
use crate::planted::Planted;
use crate::scenario::Scenario;
use crate::worker::{WorkerNode, WorkerTimer};

/// The time in ms, after everything healed and beside the remaining work, within which everything must be finished.
const LIVENESS_MAX: u64 = 90_000;
/// The time after the last consumer has finished within which everything must be released.
const SETTLE: u64 = 12_000;
/// The most events of one run: more mean that something goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;

/// An event.
pub(crate) enum Event {
    Arrive(u64, usize),
    Reset(u64, usize),
    GiveUp(u64),
    KeepAlive(Node, Option<Node>),
    Boot(Node),
    Dispatcher(u32, DispatcherTimer),
    Worker(usize, u32, WorkerTimer),
    Consumer(usize, u32, ConsumerTimer),
    /// The next message of a consumer to a worker's process that has lent it memory.
    Returned(LentTo),
    Fault(usize),
}

/// One process, or its absence.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Process {
    /// Rises with every start.
    pub(crate) life: u32,
    pub(crate) alive: bool,
    pub(crate) paused: u64,
    /// Whether its machine does not answer while it is not alive.
    silent: bool,
    /// The reading of its clock at time 0.
    clock: u64,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The violated invariant, with details.
    pub violation: Option<String>,
    /// A hash of everything that happened, in order.
    pub history: u64,
    /// The number of events.
    pub events: u64,
    /// Virtual milliseconds.
    pub time: u64,
    /// How often each kind of fault had an effect, and other counts.
    pub felt: BTreeMap<&'static str, u64>,
    /// Every event in words, on request.
    pub lines: Vec<String>,
}

pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) planted: Option<Planted>,
    pub(crate) jobs: Vec<Rc<Pipeline>>,
    pub(crate) now: u64,
    pub(crate) dice: Dice,
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
    processes: BTreeMap<Node, Process>,
    pub(crate) net: Net,
    pub(crate) dispatcher: DispatcherNode,
    pub(crate) workers: Vec<WorkerNode>,
    pub(crate) consumers: Vec<ConsumerNode>,
    pub(crate) losses: Losses,
    pub(crate) lending: Lending,
    /// The time until which the storage throttles, and the percentage of reads that fail.
    pub(crate) store: (u64, u64),
    outcome: Outcome,
    verbose: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario, catalogue: &Catalogue, planted: Option<Planted>, verbose: bool) -> Self {
        let jobs: Vec<_> = scenario.jobs.iter().map(|p| catalogue.get(*p)).collect();
        let (workers, consumers) = (scenario.workers.len(), scenario.consumers.len());
        let all = std::iter::once(Node::Dispatcher).chain((0..workers).map(Node::Worker));
        let processes = all.chain((0..consumers).map(Node::Consumer)).map(|n| (n, Process::default())).collect();
        let (felt, lines) = (BTreeMap::new(), Vec::new());
        Self {
            scenario,
            planted,
            jobs,
            now: 0,
            dice: Dice::new(scenario.seed, 2),
            queue: BTreeMap::new(),
            events: 0,
            processes,
            net: Net::default(),
            dispatcher: DispatcherNode::default(),
            workers: (0..workers).map(|_| WorkerNode::default()).collect(),
            consumers: (0..consumers).map(|_| ConsumerNode::default()).collect(),
            losses: Losses::default(),
            lending: Lending::default(),
            store: (0, 0),
            outcome: Outcome { violation: None, history: 0, events: 0, time: 0, felt, lines },
            verbose,
        }
    }

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
        let of = |c: &crate::scenario::ConsumerSetup| {
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

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        // Of events at the same time, later ones come later; numbers are never used twice.
        let number = self.outcome.events;
        self.outcome.events += 1;
        self.queue.insert((time, number), event);
    }

    pub(crate) fn process(&self, node: Node) -> Process {
        self.processes.get(&node).copied().unwrap_or_default()
    }

    pub(crate) fn process_mut(&mut self, node: Node) -> &mut Process {
        self.processes.entry(node).or_default()
    }

    pub(crate) fn life(&self, node: Node) -> u32 {
        self.process(node).life
    }

    pub(crate) fn is_alive(&self, node: Node, life: u32) -> bool {
        let process = self.process(node);
        process.alive && process.life == life
    }

    pub(crate) fn is_silent(&self, node: Node) -> bool {
        self.process(node).silent
    }

    pub(crate) fn paused(&self, node: Node) -> u64 {
        self.process(node).paused
    }

    /// Returns the reading of a process's clock.
    pub(crate) fn ticks(&self, node: Node) -> Ticks {
        Ticks(self.now + self.process(node).clock)
    }

    /// Records an event.
    pub(crate) fn note(&mut self, code: u64, what: impl FnOnce() -> String) {
        self.outcome.history = mix64(self.outcome.history ^ mix64(self.now).wrapping_add(code));
        if self.verbose {
            let line = format!("{:>7} ms  {}", self.now, what());
            self.outcome.lines.push(line);
        }
    }

    /// Counts an effect.
    pub(crate) fn felt(&mut self, what: &'static str) {
        *self.outcome.felt.entry(what).or_default() += 1;
    }

    /// Reports a violated invariant.
    pub(crate) fn fail(&mut self, invariant: &str, what: String) {
        self.note(0xdead, || format!("VIOLATION of {invariant}: {what}"));
        self.outcome.violation.get_or_insert(format!("{invariant}: {what}"));
    }

    /// Reports the error of a state machine's own check.
    pub(crate) fn expect<T>(&mut self, who: Node, checked: forebay_core::Result<T>) -> Option<T> {
        checked.map_err(|e| self.fail("invariant", format!("{who:?}: {e}"))).ok()
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
