//! `forebay jobs`, and `forebay jobs show`, `cancel` or `forget NAME`

use forebay_client::{ConsumerStatus, JobStatus, ScaleDecision, Worked, WorkerCaching};
use forebay_core::{Error, ErrorKind, Result};
use forebay_server::Service;
use serde::Serialize;
use serde_json::Value;

use super::ops::{self, Op};
use super::{connect, go_on};
use crate::arguments::{EndJob, Jobs, JobsAction, List, ShowJob};
use crate::output;

#[derive(Serialize)]
struct Job<'a> {
    /// Empty if there are no tokens.
    tenant: &'a str,
    name: &'a str,
    state: &'a str,
    dataset: &'a str,
    seed: u64,
    /// `null` if it is endless.
    epochs: Option<u64>,
    consumers: Vec<Consumer>,
    /// Splits under speculative execution because the first worker was late.
    raced: u64,
    /// The wanted number of workers; `null` while there is no decision.
    workers: Option<u32>,
    /// Jobs of a higher priority go first.
    priority: u32,
    /// Threads of its consumers' local workers.
    local_threads: u32,
    /// The ops that its consumers run, and the bytes of a row on the network; empty if there is no choice.
    cut: &'a str,
    /// The last decisions on the workers, the oldest first.
    decisions: Vec<Decision<'a>>,
    /// The cache of each worker for it.
    caching: Vec<Caching<'a>>,
    /// The work of workers for it, by kind, and its cost.
    worked: Vec<WorkerCost<'a>>,
    /// The costs of its ops, in the order in which they run; only in `jobs show`.
    ops: Vec<Op<'a>>,
}

#[derive(Serialize)]
struct Caching<'a> {
    worker: &'a str,
    /// The cached op, the reason, the figures, and the hits.
    cache: Value,
}

#[derive(Serialize)]
struct Decision<'a> {
    ago_s: f64,
    before: u32,
    workers: u32,
    reason: &'a str,
    /// The ops that consumers run since, as for a job.
    cut: &'a str,
    /// The rule, and its input figures.
    figures: Value,
}

#[derive(Serialize)]
struct WorkerCost<'a> {
    kind: &'a str,
    spot: bool,
    /// Worker-seconds.
    seconds: f64,
    cost: f64,
    /// The job's part of the workers' idle time.
    idle_seconds: f64,
    idle_cost: f64,
}

#[derive(Serialize)]
struct Consumer {
    consumer: u32,
    attached: bool,
    epoch: u64,
    split: u64,
    /// `null` if it is endless.
    splits: Option<u64>,
    leased: u32,
    skipped: u64,
}

fn some(n: u64) -> Option<u64> {
    Some(n).filter(|&n| n > 0)
}

fn decision(of: &ScaleDecision) -> Decision<'_> {
    Decision {
        ago_s: of.ago_ms as f64 / 1000.0,
        before: of.before,
        workers: of.workers,
        reason: &of.reason,
        cut: &of.cut,
        figures: serde_json::from_str(&of.json).unwrap_or_default(),
    }
}

fn bill(of: &Worked) -> WorkerCost<'_> {
    let Worked { kind, spot, seconds, cost, idle_seconds, idle_cost } = of;
    let (seconds, cost, idle_seconds, idle_cost) = (*seconds, *cost, *idle_seconds, *idle_cost);
    WorkerCost { kind, spot: *spot, seconds, cost, idle_seconds, idle_cost }
}

fn caching(of: &WorkerCaching) -> Caching<'_> {
    Caching { worker: &of.worker, cache: serde_json::from_str(&of.json).unwrap_or_default() }
}

fn of(job: &JobStatus) -> Job<'_> {
    let consumer = |c: &ConsumerStatus| Consumer {
        consumer: c.consumer,
        attached: c.attached,
        epoch: c.epoch,
        split: c.ordinal,
        splits: some(c.splits),
        leased: c.leased,
        skipped: c.skipped,
    };
    Job {
        tenant: &job.tenant,
        name: &job.name,
        state: &job.state,
        dataset: &job.dataset,
        seed: job.seed,
        epochs: some(job.epochs),
        consumers: job.consumers.iter().map(consumer).collect(),
        raced: job.raced,
        workers: Some(job.workers).filter(|&n| n > 0),
        priority: job.priority,
        local_threads: job.local_threads,
        cut: &job.cut,
        decisions: job.decisions.iter().map(decision).collect(),
        caching: job.caching.iter().map(caching).collect(),
        worked: job.worked.iter().map(bill).collect(),
        ops: job.ops.iter().map(Op::of).collect(),
    }
}

/// Returns the progress of a consumer as text.
fn progress(consumer: &Consumer) -> String {
    let splits = consumer.splits.map_or_else(String::new, |n| format!("/{n}"));
    format!("epoch {} split {}{splits}", consumer.epoch, consumer.split)
}

pub(crate) fn run(arguments: &Jobs) -> Result<()> {
    match &arguments.what {
        None => list(&arguments.list),
        Some(JobsAction::Show(job)) => show(job),
        Some(JobsAction::Cancel(job)) => end(job, "cancelled", Service::cancel),
        Some(JobsAction::Forget(job)) => end(job, "forgotten", Service::forget),
    }
}

/// A call that ends a job: its name, its tenant, and the `poll` of the wait.
type Ends = fn(&Service, &str, Option<&str>, &mut dyn FnMut() -> Result<()>) -> Result<()>;

fn end(arguments: &EndJob, done: &str, ends: Ends) -> Result<()> {
    let EndJob { name, tenant, list } = arguments;
    ends(&connect(list)?, name, tenant.as_deref(), &mut go_on)?;
    if list.json {
        return output::json(&serde_json::json!({ "job": name, "tenant": tenant, "done": done }));
    }
    output::line(&format!("{done} {name}"))
}

fn show(arguments: &ShowJob) -> Result<()> {
    let jobs = connect(&arguments.list)?.jobs(Some(&arguments.name), &mut go_on)?;
    let jobs: Vec<_> = jobs.iter().map(of).collect();
    if jobs.is_empty() {
        let message = format!("there is no job {:?}", arguments.name);
        return Err(Error::new(ErrorKind::NotFound, message).hint("see `forebay jobs`"));
    }
    if arguments.list.json {
        return output::json(&jobs);
    }
    for job in &jobs {
        let tenant = if job.tenant.is_empty() { String::new() } else { format!(" of {}", job.tenant) };
        output::line(&format!("job        {}{tenant}", job.name))?;
        output::line(&format!("state      {}", job.state))?;
        for consumer in &job.consumers {
            output::line(&format!("consumer   {}, {}", consumer.consumer, progress(consumer)))?;
        }
        let workers = job.workers.map_or("not decided".to_owned(), |n| format!("{n} wanted"));
        output::line(&format!("workers    {workers}"))?;
        for of in &job.worked {
            let spot = if of.spot { " (spot)" } else { "" };
            let (all, idle) = (of.cost + of.idle_cost, of.idle_seconds / 3600.0);
            let hours = of.seconds / 3600.0 + idle;
            output::line(&format!(
                "cost       {all:.2} for {hours:.2} h of {}{spot}, {idle:.2} h of it idle",
                of.kind
            ))?;
        }
        if job.priority > 0 {
            output::line(&format!("priority   {}", job.priority))?;
        }
        if job.local_threads > 0 {
            output::line(&format!("local      threads of its consumers' local workers: {}", job.local_threads))?;
        }
        if !job.cut.is_empty() {
            output::line(&format!("boundary   {}", job.cut))?;
        }
        let row = |(i, d): (usize, &Decision<'_>)| {
            let before = i.checked_sub(1).and_then(|before| job.decisions.get(before));
            // Printed once while it stays the same.
            let is_said = d.cut.is_empty() || before.is_some_and(|before| before.cut == d.cut);
            let why = if is_said { d.reason.to_owned() } else { format!("{}; {}", d.reason, d.cut) };
            [format!("{:.1} s ago", d.ago_s), format!("{} -> {}", d.before, d.workers), why]
        };
        let rows: Vec<_> = job.decisions.iter().enumerate().map(row).collect();
        if !rows.is_empty() {
            output::table(["WHEN", "WORKERS", "WHY"], &rows)?;
        }
        let rows = ops::rows(&job.ops);
        if !rows.is_empty() {
            let earlier =
                if job.ops.iter().any(|op| op.is_earlier()) { ", in jobs with this pipeline before" } else { "" };
            output::line(&format!("ops        * costs most{earlier}"))?;
            output::table(ops::HEADINGS, &rows)?;
        }
        let rows: Vec<_> = job.caching.iter().flat_map(kept).collect();
        if !rows.is_empty() {
            output::table(["WORKER", "KEEPS", "WHY"], &rows)?;
        }
    }
    Ok(())
}

/// Describes the rows and bytes that a worker caches for a job, and the reason or the result.
fn kept(of: &Caching<'_>) -> Vec<[String; 3]> {
    let worker = of.worker.get(..8).unwrap_or(of.worker);
    let text = |value: &Value| value.as_str().unwrap_or("nothing").to_owned();
    let bytes = |value: &Value| output::bytes(value.as_u64().unwrap_or(0));
    let rows = of.cache.get("why").map(|why| [worker.to_owned(), text(&of.cache["kept"]), text(why)]);
    let source = of.cache.get("source").map(|source| {
        let found = format!("{} fetched, {} from disk", bytes(&source["fetched"]), bytes(&source["from_disk"]));
        [worker.to_owned(), format!("bytes of {}", text(&source["files"])), found]
    });
    rows.into_iter().chain(source).collect()
}

fn list(arguments: &List) -> Result<()> {
    let jobs = connect(arguments)?.jobs(None, &mut go_on)?;
    let jobs: Vec<_> = jobs.iter().map(of).collect();
    if arguments.json {
        return output::json(&jobs);
    }
    if jobs.is_empty() {
        eprintln!("no jobs");
        return Ok(());
    }
    let row = |job: &Job<'_>| {
        let attached = job.consumers.iter().filter(|c| c.attached).count();
        let slowest = job.consumers.iter().min_by_key(|c| (c.epoch, c.split)).map(progress).unwrap_or_default();
        let epochs = job.epochs.map_or("endless".to_owned(), |n| n.to_string());
        let skipped = job.consumers.iter().map(|c| c.skipped).sum::<u64>().to_string();
        let consumers = format!("{attached}/{}", job.consumers.len());
        // A tenant sees only its own jobs and needs no column for the tenant.
        let of_several = jobs.iter().any(|j| j.tenant != job.tenant);
        let name = if of_several { format!("{}/{}", job.tenant, job.name) } else { job.name.to_owned() };
        let workers = job.workers.map_or_else(String::new, |n| n.to_string());
        [name, job.state.to_owned(), epochs, consumers, workers, skipped, job.raced.to_string(), slowest]
    };
    let headings = ["JOB", "STATE", "EPOCHS", "CONSUMERS", "WORKERS", "SKIPPED", "RACED", "AT"];
    output::table(headings, &jobs.iter().map(row).collect::<Vec<_>>())
}
