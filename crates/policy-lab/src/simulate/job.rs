//! The input of a simulation: jobs, the pool of workers that they share, and a seed.

use forebay_core::{Error, Result};

use super::pool::{Kind, Pool, kinds_check};
use forebay_policy::placement::{Cut, Finishing, Machine, Manners, Model, Objective, Placement, Wire};

/// The most jobs of a scenario.
pub const JOBS_MAX: usize = 10_000;
/// More seconds, or batches a second, than any job has.
pub(super) const LARGE: f64 = 1e9;
/// The most batches that are counted exactly.
const BATCHES_MAX: u64 = 1 << 50;
/// The largest relative noise of figures.
const NOISE_MAX: f64 = 0.5;
/// More bytes than any batch has.
const BYTES_MAX: f64 = 1e15;
/// The most threads on a trainer's machine.
const LOCAL_MAX: u32 = 65_536;

/// An op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Op {
    /// Seconds of one thread for a batch.
    pub cost: f64,
    /// Bytes of a batch after it.
    pub bytes: f64,
}

/// The machine of a trainer.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its cores.
    pub cores: f64,
    /// Cores that the trainer keeps busy.
    pub used: f64,
    /// (when, cores): the cores that it keeps busy from then on, counted from the job's beginning; the earliest first.
    pub then: Vec<(f64, f64)>,
    /// The share by which a step becomes longer while all cores compute input at the lowest priority.
    pub interference: f64,
    /// The most threads that may compute there.
    pub local_max: u32,
    /// Threads of a worker in the trainer's process, for `pecan`, which counts such workers.
    pub crew: u32,
    /// The cost of sending a batch.
    pub wire: Wire,
    /// Where the rows that workers send are finished.
    pub finishing: Finishing,
}

impl Host {
    /// Makes a machine of so many cores, all of which may be used, and a free network without a limit.
    pub fn new(cores: f64, used: f64) -> Self {
        let (wire, finishing) = (Wire::default(), Finishing::Threads);
        Self { cores, used, then: Vec::new(), interference: 0.0, local_max: cores as u32, crew: 1, wire, finishing }
    }
}

/// A job. All times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Seconds of a step of the trainer, without waits.
    pub step: f64,
    /// (when, step): the step from then on, counted from the job's beginning; the earliest first.
    pub then: Vec<(f64, f64)>,
    /// The ops, in their order.
    pub ops: Vec<Op>,
    /// The machine of its trainer, where threads may compute; `None` if none may.
    pub host: Option<Host>,
    /// The objective, for a policy that has objectives.
    pub objective: Objective,
    /// Batches, of all epochs.
    pub batches: u64,
    /// Batches that may be ready before the trainer requests them.
    pub ahead: u32,
    /// The share of a worker's computing time that reaches the trainer, above 0 up to 1.
    pub efficiency: f64,
    /// The most batches a second that all workers together can bring, if a shared resource (storage, network) has a
    /// limit.
    pub shared_limit: Option<f64>,
    /// The noise of a window's figures, either way, as a share: 0 to 0.5.
    pub noise: f64,
    /// Its weight beside other jobs, if there are too few workers.
    pub weight: f64,
    /// When it begins.
    pub begins: f64,
}

impl Job {
    /// Makes a job that begins at once, with 8 batches ahead, no losses or limits on the way, and figures without
    /// noise.
    pub fn new(name: impl Into<String>, step: f64, batch_cost: f64, batches: u64) -> Self {
        Self {
            name: name.into(),
            step,
            then: Vec::new(),
            ops: vec![Op { cost: batch_cost, bytes: 0.0 }],
            host: None,
            objective: Objective::Time,
            batches,
            ahead: 8,
            efficiency: 1.0,
            shared_limit: None,
            noise: 0.0,
            weight: 1.0,
            begins: 0.0,
        }
    }

    /// Returns the model of its placements, as it begins, with workers of so many threads.
    pub fn model(&self, threads: f64, manners: Manners) -> Model {
        let ops: Vec<_> = self.ops.iter().map(|op| (op.cost, op.bytes)).collect();
        let machine =
            |host: &Host| Machine { cores: host.cores, used: host.used, manners, interference: host.interference };
        Model {
            step: self.step,
            cuts: Cut::of_ops(&ops),
            wire: self.host.as_ref().map_or(Wire::default(), |host| host.wire),
            threads,
            efficiency: self.efficiency,
            shared_limit: self.shared_limit,
            machine: self.host.as_ref().map(machine),
            finishing: self.host.as_ref().map_or(Finishing::Threads, |host| host.finishing),
        }
    }

    /// Returns the placement with all ops on so many workers.
    pub fn on_workers(&self, workers: u32) -> Placement {
        Placement { workers, local: 0, cut: self.ops.len() as u32 }
    }

    fn check(&self) -> Result<()> {
        positive("a step", self.step)?;
        positive("the weight", self.weight)?;
        self.shared_limit.map_or(Ok(()), |limit| positive("the limit that workers share", limit))?;
        within("the beginning", self.begins, 0.0, LARGE)?;
        within("the noise", self.noise, 0.0, NOISE_MAX)?;
        positive("the efficiency", self.efficiency)?;
        within("the efficiency", self.efficiency, 0.0, 1.0)?;
        if !(1..=BATCHES_MAX).contains(&self.batches) {
            return Err(Error::invalid(format!("a job of {} batches: there are 1 to {BATCHES_MAX}", self.batches)));
        }
        self.then.iter().try_for_each(|(_, step)| positive("a step", *step))?;
        in_order("the step changes", &self.then)?;
        self.objective.check()?;
        self.host.as_ref().map_or(Ok(()), Host::check)?;
        self.ops.iter().try_for_each(|op| {
            within("the cost of an op", op.cost, 0.0, LARGE)?;
            within("the bytes of a batch", op.bytes, 0.0, BYTES_MAX)
        })?;
        self.model(1.0, Manners::SpareOnly).check()
    }
}

impl Host {
    fn check(&self) -> Result<()> {
        in_order("what the trainer takes of its machine changes", &self.then)?;
        self.then
            .iter()
            .try_for_each(|(_, used)| within("what the trainer takes of its machine", *used, 0.0, self.cores))?;
        if !(1..=4096).contains(&self.crew) {
            return Err(
                Error::invalid(format!("a worker of {} threads at the trainer", self.crew)).hint("use 1 to 4096")
            );
        }
        if self.local_max > LOCAL_MAX {
            return Err(Error::invalid(format!("{} threads at the trainer", self.local_max))
                .hint(format!("use 0 to {LOCAL_MAX}, of use are as many as there are cores")));
        }
        Ok(())
    }
}

fn in_order(what: &str, changes: &[(f64, f64)]) -> Result<()> {
    let mut last = 0.0;
    for &(at, _) in changes {
        if !(at > last && at <= LARGE) {
            return Err(Error::invalid(format!("{what} at {at} s, after {last} s"))
                .hint("give changes in their order, each at a time of its own after 0"));
        }
        last = at;
    }
    Ok(())
}

/// The input of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Their workers.
    pub pool: Pool,
    /// The types of the workers; if empty, they are all alike.
    pub kinds: Vec<Kind>,
    /// The seed of noise and losses.
    pub seed: u64,
}

impl Scenario {
    /// Makes a scenario whose workers are all alike.
    pub fn new(jobs: Vec<Job>, pool: Pool, seed: u64) -> Self {
        Self { jobs, pool, kinds: Vec::new(), seed }
    }

    /// Checks that it can be simulated.
    ///
    /// # Errors
    /// Names the impossible figure and its job.
    pub fn check(&self) -> Result<()> {
        if !(1..=JOBS_MAX).contains(&self.jobs.len()) {
            return Err(Error::invalid(format!("{} jobs: there are 1 to {JOBS_MAX}", self.jobs.len())));
        }
        self.pool.check()?;
        kinds_check(&self.kinds)?;
        self.jobs.iter().try_for_each(|job| job.check().map_err(|e| e.with("job", &job.name)))
    }
}

pub(super) fn positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value <= LARGE {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} is {value}")).hint(format!("use a number above 0, up to {LARGE:e}")))
}

pub(super) fn within(what: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} is {value}")).hint(format!("use {low} to {high}")))
}
