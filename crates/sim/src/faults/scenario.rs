//! The content of one seed: the processes, and every fault with its time. Drawn before the run, so that it can be
//! printed, and replayed with fewer faults.

mod mixed;

use std::fmt;
use std::time::Duration;

use forebay_dispatcher::Timing;

use crate::faults::dice::Dice;
use crate::faults::fault::Fault;
use crate::roles::node::Node;

/// The kinds of worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worlds {
    /// Jobs that lose nothing.
    Plain,
    /// Also jobs that skip samples, whose consumers are coordinated, that have twins, and that are cancelled.
    Mixed,
}

impl Worlds {
    /// Both, with their names on the command line.
    pub const ALL: [(&str, Worlds); 2] = [("plain", Self::Plain), ("mixed", Self::Mixed)];
}

/// One worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerSetup {
    pub(crate) threads: usize,
    pub(crate) slots: usize,
    /// The time of a chunk, in ms.
    pub(crate) chunk: u64,
    /// Whether a new process has the address of the old one.
    pub(crate) same_address: bool,
    /// Whether it computes for the first consumer alone.
    pub(crate) local: bool,
}

/// One consumer of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsumerSetup {
    pub(crate) job: usize,
    pub(crate) index: u32,
    pub(crate) window: u32,
    /// The time of a training step, in ms.
    pub(crate) step: u64,
    /// The percentage of steps after which it saves.
    pub(crate) saves: u64,
    /// Whether it saves before its first step.
    pub(crate) saves_first: bool,
    /// The time at which it starts.
    pub(crate) starts: u64,
    /// Whether workers lend it memory.
    pub(crate) lent: bool,
}

/// The properties of a pipeline that a scenario needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Consumers of its job.
    pub(crate) consumers: u32,
    /// The number of placement boundaries.
    pub(crate) places: u32,
}

/// All random choices that are drawn before a run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its seed.
    pub seed: u64,
    pub(crate) timing: Timing,
    /// The longest time of a message, in ms.
    pub(crate) latency: u64,
    /// The longest time of a write to the disk.
    pub(crate) write: u64,
    /// The pipeline of each job.
    pub(crate) jobs: Vec<usize>,
    pub(crate) workers: Vec<WorkerSetup>,
    pub(crate) consumers: Vec<ConsumerSetup>,
    /// Faults and their times, the earliest first.
    pub faults: Vec<(u64, Fault)>,
    /// The time at which faults end and everything heals.
    pub(crate) heals: u64,
    /// The percentage of chunks at which a process dies at a sample, if that sample is skipped then.
    pub(crate) deaths: u64,
    /// A job, and a number that selects its poison split, which ends every worker that computes it.
    pub(crate) poison: Option<(usize, u64)>,
}

impl Scenario {
    /// Draws the scenario of a seed.
    pub(crate) fn new(worlds: Worlds, seed: u64, shape: impl Fn(usize) -> Shape) -> Self {
        let mut dice = Dice::new(seed, 1);
        let dice = &mut dice;
        let timing =
            Timing { reconnect_grace: Duration::from_millis(dice.pick(&[0, 0, 400, 1500])), ..Timing::default() };
        let jobs = mixed::jobs(worlds, dice);
        let workers = (0..dice.within(1..9)).map(|_| worker(dice)).collect::<Vec<_>>();
        let places = jobs.iter().enumerate().flat_map(|(job, p)| (0..shape(*p).consumers).map(move |i| (job, i)));
        let all: Vec<_> = places.collect();
        let consumers: Vec<_> = all.into_iter().map(|(job, index)| consumer(dice, job, index)).collect();
        let heals = dice.within(2_000..16_000);
        let mut scenario = Self {
            seed,
            timing,
            latency: dice.pick(&[2, 5, 20, 100]),
            write: dice.pick(&[2, 10, 50]),
            jobs,
            workers,
            consumers,
            faults: Vec::new(),
            heals,
            deaths: 0,
            poison: None,
        };
        // One in sixteen has none: then there must be no trouble at all.
        let faults = if dice.percent(6) { 0 } else { dice.within(1..16) };
        for _ in 0..faults {
            let at = dice.within(0..heals);
            let fault = scenario.fault(dice);
            scenario.faults.push((at, fault));
        }
        // A machine that is slow all the time is not a fault, but usual in fleets.
        if faults > 0 && dice.percent(25) {
            let (worker, factor) = (dice.index(scenario.workers.len()), dice.pick(&[4, 10, 40]));
            scenario.faults.push((0, Fault::SlowWorker { worker, factor, time: heals }));
        }
        // The last worker is a local one, if there are others.
        if faults > 0 && scenario.workers.len() > 1 && dice.percent(30) {
            scenario.workers.last_mut().into_iter().for_each(|worker| worker.local = true);
        }
        scenario.faults.extend(scenario.cuts(|pipeline| shape(pipeline).places));
        scenario.faults.sort_by_key(|(at, _)| *at);
        if worlds == Worlds::Mixed {
            mixed::trouble(&mut scenario);
        }
        scenario
    }

    /// Returns whether any worker lends memory.
    pub(crate) fn lends(&self) -> bool {
        self.consumers.iter().any(|consumer| consumer.lent)
    }

    /// Returns whether there is no fault.
    pub(crate) fn is_calm(&self) -> bool {
        !self.faults.iter().any(|(_, fault)| fault.is_trouble())
    }

    /// Draws changes of placement boundaries: mostly early, because some jobs are short.
    fn cuts(&self, places: impl Fn(usize) -> u32) -> Vec<(u64, Fault)> {
        let (mut dice, mut cuts) = (Dice::new(self.seed, 3), Vec::new());
        for (job, places) in self.jobs.iter().map(|pipeline| places(*pipeline)).enumerate() {
            if places < 2 || dice.percent(15) {
                continue;
            }
            let until = dice.pick(&[500, 2_000, self.heals]).min(self.heals);
            let most = dice.pick(&[4, 16, 80]);
            for _ in 0..dice.within(1..most) {
                let (at, place) = (dice.within(0..until), dice.within(1..u64::from(places) + 1) as u32);
                cuts.push((at, Fault::Cut { job, place }));
            }
        }
        cuts
    }

    fn fault(&self, dice: &mut Dice) -> Fault {
        let (workers, consumers) = (self.workers.len(), self.consumers.len());
        let time = dice.pick(&[80, 300, 700, 1_500, 3_000, 6_000, 18_000]);
        let down = dice.pick(&[20, 150, 600, 2_500, 7_000]);
        let (worker, consumer) = (Node::Worker(dice.index(workers)), Node::Consumer(dice.index(consumers)));
        let silent = dice.percent(20);
        let (a, b) = dice.pick(&[(Node::Dispatcher, worker), (Node::Dispatcher, consumer), (worker, consumer)]);
        let (from, to) = if dice.percent(50) { (a, b) } else { (b, a) };
        match dice.within(0..100) {
            0..10 => Fault::Kill { node: Node::Dispatcher, down, silent },
            10..27 => Fault::Kill { node: worker, down, silent },
            27..38 => Fault::Kill { node: consumer, down, silent },
            38..43 => Fault::Pause { node: Node::Dispatcher, time: time.min(6_000) },
            43..50 => Fault::Pause { node: worker, time },
            50..54 => Fault::Pause { node: consumer, time },
            54..60 => Fault::Leave { worker: dice.index(workers), down },
            60..72 => Fault::Partition { from, to, both: dice.percent(60), time },
            72..77 => Fault::Reset { a, b },
            77..83 => Fault::SlowWorker { worker: dice.index(workers), factor: dice.pick(&[4, 10, 40]), time },
            83..87 => Fault::Slow { late: dice.pick(&[100, 500, 1_500]), time },
            87..91 => Fault::DiskFull { time: time.min(6_000) },
            91..95 => Fault::DiskSlow { write: dice.pick(&[150, 600, 2_500]), time },
            _ => Fault::Store { fail: dice.pick(&[0, 10, 40]), time: time.min(6_000) },
        }
    }
}

fn worker(dice: &mut Dice) -> WorkerSetup {
    let threads = dice.within(1..4) as usize;
    let slots = dice.pick(&[1, threads, threads * 2 + 2]);
    let (chunk, same_address) = (dice.pick(&[1, 5, 20, 60]), dice.percent(50));
    WorkerSetup { threads, slots, chunk, same_address, local: false }
}

fn consumer(dice: &mut Dice, job: usize, index: u32) -> ConsumerSetup {
    ConsumerSetup {
        job,
        index,
        window: dice.pick(&[1, 2, 3, 5, 8, 16]),
        step: dice.pick(&[0, 2, 10, 50, 150]),
        saves: dice.pick(&[0, 5, 30, 100]),
        saves_first: dice.percent(50),
        starts: dice.pick(&[0, 0, 50, 1_000, 4_000]),
        lent: dice.percent(30),
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: faults until {} ms", self.seed, self.heals)?;
        writeln!(f, "  {:?}, latency up to {} ms, a write up to {} ms", self.timing, self.latency, self.write)?;
        for (i, worker) in self.workers.iter().enumerate() {
            writeln!(f, "  worker {i}: {worker:?}")?;
        }
        for (i, consumer) in self.consumers.iter().enumerate() {
            writeln!(f, "  consumer {i}: {consumer:?}")?;
        }
        if self.deaths > 0 || self.poison.is_some() {
            writeln!(f, "  processes die at {} of 100 chunks, poison {:?}", self.deaths, self.poison)?;
        }
        for (at, fault) in &self.faults {
            writeln!(f, "  {at:>6} ms  {fault:?}")?;
        }
        Ok(())
    }
}
