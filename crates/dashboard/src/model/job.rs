//! A job, with all figures that the dispatcher lists.

use forebay_proto::{JobStatus, ScaleDecision, Worked, WorkerCaching};
use serde::Serialize;
use serde_json::Value;

use super::optional::some;
use super::{Consumer, Op};

/// A job in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Job<'a> {
    /// Empty if there are no tokens.
    pub tenant: &'a str,
    /// Its name.
    pub name: &'a str,
    /// "running", "waiting for workers", "no consumer", "finished" or "cancelled".
    pub state: &'a str,
    /// The id of its dataset.
    pub dataset: &'a str,
    /// Its seed.
    pub seed: u64,
    /// `null` if it is endless.
    pub epochs: Option<u64>,
    /// Its consumers.
    pub consumers: Vec<Consumer>,
    /// Splits under speculative execution because the first worker was late.
    pub raced: u64,
    /// The wanted number of workers; `null` while there is no decision.
    pub workers: Option<u32>,
    /// The connected workers that hold splits of it now; local workers do not count.
    pub workers_computing: u32,
    /// Jobs of a higher priority go first.
    pub priority: u32,
    /// Threads of its consumers' local workers.
    pub local_threads: u32,
    /// The ops that its consumers run, and the bytes of a row on the network, in words; empty if there is no choice.
    pub cut: &'a str,
    /// The last decisions on the workers, the oldest first.
    pub decisions: Vec<Decision<'a>>,
    /// The cache of each worker for it.
    pub caching: Vec<Caching<'a>>,
    /// The workers that its consumers avoid now because they could not fetch from them.
    pub avoided: Vec<AvoidedWorker<'a>>,
    /// The work of workers for it, by kind, and its cost.
    pub worked: Vec<WorkerCost<'a>>,
    /// The costs of its ops, in the order in which they run; empty unless the call requested the job by its name.
    pub ops: Vec<Op<'a>>,
}

/// A worker that a consumer avoids because it could not fetch splits from it.
#[derive(Debug, Clone, Serialize)]
pub struct AvoidedWorker<'a> {
    /// The consumer's index.
    pub consumer: u32,
    /// The worker's id.
    pub worker: &'a str,
    /// The address that the worker advertises.
    pub address: &'a str,
    /// Why the last fetch failed, in words.
    pub cause: &'a str,
}

/// The cache of one worker for a job.
#[derive(Debug, Clone, Serialize)]
pub struct Caching<'a> {
    /// The worker's id.
    pub worker: &'a str,
    /// The cached op, the reason, the figures, and the hits.
    pub cache: Value,
}

/// A decision on the number of workers.
#[derive(Debug, Clone, Serialize)]
pub struct Decision<'a> {
    /// Seconds since then.
    pub ago_s: f64,
    /// The wanted number of workers before the decision.
    pub before: u32,
    /// The wanted number of workers since the decision.
    pub workers: u32,
    /// The reason, in words.
    pub reason: &'a str,
    /// The ops that consumers run since the decision, as for a job.
    pub cut: &'a str,
    /// The rule, and its input figures.
    pub figures: Value,
}

/// The work of one kind of workers for a job, and its cost.
#[derive(Debug, Clone, Serialize)]
pub struct WorkerCost<'a> {
    /// The worker type.
    pub kind: &'a str,
    /// Whether these are spot workers.
    pub spot: bool,
    /// Worker-seconds.
    pub seconds: f64,
    /// Their cost.
    pub cost: f64,
    /// The job's part of the workers' idle time.
    pub idle_seconds: f64,
    /// The cost of that idle time.
    pub idle_cost: f64,
}

impl<'a> Job<'a> {
    /// Makes the JSON of a job.
    pub fn of(job: &'a JobStatus) -> Self {
        Self {
            tenant: &job.tenant,
            name: &job.name,
            state: &job.state,
            dataset: &job.dataset,
            seed: job.seed,
            epochs: some(job.epochs),
            consumers: job.consumers.iter().map(Consumer::of).collect(),
            raced: job.raced,
            workers: Some(job.workers).filter(|&n| n > 0),
            workers_computing: job.workers_computing,
            priority: job.priority,
            local_threads: job.local_threads,
            cut: &job.cut,
            decisions: job.decisions.iter().map(Decision::of).collect(),
            caching: job.caching.iter().map(Caching::of).collect(),
            avoided: job.avoided.iter().map(AvoidedWorker::of).collect(),
            worked: job.worked.iter().map(WorkerCost::of).collect(),
            ops: Op::all(&job.ops),
        }
    }
}

/// Returns the workers that compute for a job and the wanted ones as text: "2 of 5".
pub fn workers_of(computing: u32, wanted: Option<u32>) -> String {
    match (computing, wanted) {
        (0, None) => "-".to_owned(),
        (n, None) => n.to_string(),
        (n, Some(wanted)) => format!("{n} of {wanted}"),
    }
}

impl<'a> AvoidedWorker<'a> {
    fn of(of: &'a forebay_proto::AvoidedWorker) -> Self {
        Self { consumer: of.consumer, worker: &of.worker, address: &of.address, cause: &of.cause }
    }
}

impl<'a> Decision<'a> {
    fn of(of: &'a ScaleDecision) -> Self {
        Self {
            ago_s: of.ago_ms as f64 / 1000.0,
            before: of.before,
            workers: of.workers,
            reason: &of.reason,
            cut: &of.cut,
            figures: serde_json::from_str(&of.json).unwrap_or_default(),
        }
    }
}

impl<'a> WorkerCost<'a> {
    fn of(of: &'a Worked) -> Self {
        let Worked { kind, spot, seconds, cost, idle_seconds, idle_cost } = of;
        let (seconds, cost, idle_seconds, idle_cost) = (*seconds, *cost, *idle_seconds, *idle_cost);
        Self { kind, spot: *spot, seconds, cost, idle_seconds, idle_cost }
    }
}

impl<'a> Caching<'a> {
    pub(crate) fn of(of: &'a WorkerCaching) -> Self {
        Self { worker: &of.worker, cache: serde_json::from_str(&of.json).unwrap_or_default() }
    }
}
