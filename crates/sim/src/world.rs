//! The simulated world: virtual time, living processes, and the queue of events. One thread, one order of events.
//! `run` takes them.

mod run;

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::Ticks;
use forebay_core::rng::mix64;

use crate::faults::dice::Dice;
use crate::faults::planted::Planted;
use crate::faults::scenario::Scenario;
use crate::losses::account::Losses;
use crate::net::streams::Net;
use crate::pipelines::catalogue::Catalogue;
use crate::pipelines::pipeline::Pipeline;
use crate::roles::consumer::node::{ConsumerNode, ConsumerTimer};
use crate::roles::dispatcher::node::{DispatcherNode, DispatcherTimer};
use crate::roles::lending::loans::{Lending, LentTo};
use crate::roles::node::Node;
use crate::roles::worker::node::{WorkerNode, WorkerTimer};

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
}
