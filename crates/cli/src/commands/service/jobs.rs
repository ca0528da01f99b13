//! `forebay jobs`, and `forebay jobs show`, `why`, `trace`, `cancel` or `forget NAME`

use forebay_client::{JobStatus, Trace};
use forebay_core::{Error, ErrorKind, Result};
use forebay_dashboard::model::{Caching, Consumer, Decision, Job, workers_of};
use forebay_dashboard::why::{Verdict, why};
use forebay_server::Service;
use serde::Serialize;
use serde_json::Value;

use super::ops;
use crate::arguments::{EndJob, Jobs, JobsAction, List, ShowJob, TraceJob};
use crate::commands::{connect, go_on};
use crate::output;

pub(crate) fn run(arguments: &Jobs) -> Result<()> {
    match &arguments.what {
        None => list(&arguments.list),
        Some(JobsAction::Show(job)) => show(job),
        Some(JobsAction::Why(job)) => say_why(job),
        Some(JobsAction::Trace(job)) => trace(job),
        Some(JobsAction::Cancel(job)) => end(job, "cancelled", Service::cancel),
        Some(JobsAction::Forget(job)) => end(job, "forgotten", Service::forget),
    }
}

fn trace(arguments: &TraceJob) -> Result<()> {
    let TraceJob { name, seconds, consumer, out, tenant, list } = arguments;
    let unwritable = |why: String| {
        let message = format!("{} cannot be written: {why}", out.display());
        Error::invalid(message).hint("name a file in a folder that exists")
    };
    // Now rather than after the recording.
    if out.is_dir() || out.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        return Err(unwritable("there is no such folder, or it is one".to_owned()));
    }
    let Trace { file, ended } = connect(list)?.trace(name, tenant.as_deref(), (*consumer, *seconds), &mut go_on)?;
    std::fs::write(out, &file).map_err(|e| unwritable(e.to_string()))?;
    if list.json {
        let ended_s = ended.map(|ended| ended.as_secs_f64());
        return output::json(&serde_json::json!({ "job": name, "file": out, "bytes": file.len(), "ended_s": ended_s }));
    }
    if let Some(ended) = ended {
        let ended = ended.as_secs_f64();
        output::line(&format!("consumer {consumer} of job {name:?} ended after {ended:.1} s of {seconds} s"))?;
    }
    output::line(&format!("{}: open it at https://ui.perfetto.dev", out.display()))
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

/// Returns the jobs of a name, of one tenant or all; at least one.
///
/// # Errors
/// NotFound.
fn named(service: &Service, ShowJob { name, tenant, .. }: &ShowJob) -> Result<Vec<JobStatus>> {
    let mut jobs = service.jobs(Some(name), &mut go_on)?;
    jobs.retain(|job| tenant.as_ref().is_none_or(|tenant| *tenant == job.tenant));
    // The service takes an empty name for all jobs.
    if jobs.is_empty() || name.is_empty() {
        let of = tenant.as_ref().map_or_else(String::new, |tenant| format!(" of tenant {tenant:?}"));
        return Err(Error::new(ErrorKind::NotFound, format!("there is no job {name:?}{of}")).hint("see `forebay jobs`"));
    }
    Ok(jobs)
}

/// The bottleneck of a job in JSON.
#[derive(Serialize)]
struct JobVerdict<'a> {
    tenant: &'a str,
    name: &'a str,
    #[serde(flatten)]
    verdict: Verdict,
}

impl<'a> JobVerdict<'a> {
    fn of(job: &'a JobStatus, verdict: Verdict) -> Self {
        Self { tenant: &job.tenant, name: &job.name, verdict }
    }
}

fn say_why(arguments: &ShowJob) -> Result<()> {
    let service = connect(&arguments.list)?;
    let jobs = named(&service, arguments)?;
    let workers = service.workers(&mut go_on)?;
    let verdicts: Vec<_> = jobs.iter().map(|job| JobVerdict::of(job, why(job, &workers))).collect();
    if arguments.list.json {
        return output::json(&verdicts);
    }
    for job in &verdicts {
        let of = if job.tenant.is_empty() || jobs.len() == 1 { String::new() } else { format!("{}: ", job.tenant) };
        output::line(&output::harmless(&format!("{of}{}", job.verdict.sentence)))?;
    }
    Ok(())
}

fn show(arguments: &ShowJob) -> Result<()> {
    let jobs = named(&connect(&arguments.list)?, arguments)?;
    let jobs: Vec<_> = jobs.iter().map(Job::of).collect();
    if arguments.list.json {
        return output::json(&jobs);
    }
    for job in &jobs {
        let tenant = if job.tenant.is_empty() { String::new() } else { format!(" of {}", job.tenant) };
        output::line(&format!("job        {}{tenant}", job.name))?;
        output::line(&format!("state      {}", job.state))?;
        for consumer in &job.consumers {
            output::line(&format!("consumer   {}, {}", consumer.consumer, consumer.progress()))?;
        }
        let workers = job.workers.map_or("not decided".to_owned(), |n| format!("{n} wanted"));
        let workers = format!("{} computing, {workers}", job.workers_computing);
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
        for of in &job.avoided {
            let text = format!("consumer {} avoids the worker at {}: {}", of.consumer, of.address, of.cause);
            output::line(&format!("avoided    {}", output::harmless(&text)))?;
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
            // The boundary is printed only when it changes.
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
            let earlier = if job.ops.iter().any(|op| op.earlier) { ", in jobs with this pipeline before" } else { "" };
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
    let jobs: Vec<_> = jobs.iter().map(Job::of).collect();
    if arguments.json {
        return output::json(&jobs);
    }
    if jobs.is_empty() {
        eprintln!("no jobs");
        return Ok(());
    }
    let row = |job: &Job<'_>| {
        let attached = job.consumers.iter().filter(|c| c.attached).count();
        let slowest =
            job.consumers.iter().min_by_key(|c| (c.epoch, c.split)).map(Consumer::progress).unwrap_or_default();
        let epochs = job.epochs.map_or("endless".to_owned(), |n| n.to_string());
        let skipped = job.consumers.iter().map(|c| c.skipped).sum::<u64>().to_string();
        let consumers = format!("{attached}/{}", job.consumers.len());
        // A tenant sees only its own jobs and needs no column for the tenant.
        let of_several = jobs.iter().any(|j| j.tenant != job.tenant);
        let name = if of_several { format!("{}/{}", job.tenant, job.name) } else { job.name.to_owned() };
        let workers = workers_of(job.workers_computing, job.workers);
        [name, job.state.to_owned(), epochs, consumers, workers, skipped, job.raced.to_string(), slowest]
    };
    let headings = ["JOB", "STATE", "EPOCHS", "CONSUMERS", "WORKERS", "SKIPPED", "RACED", "AT"];
    output::table(headings, &jobs.iter().map(row).collect::<Vec<_>>())
}
