//! `forebay jobs`

use forebay_client::{ConsumerStatus, JobStatus};
use forebay_core::Result;
use serde::Serialize;

use super::{connect, go_on};
use crate::arguments::List;
use crate::output;

#[derive(Serialize)]
struct Job<'a> {
    /// Empty where there are no tokens.
    tenant: &'a str,
    name: &'a str,
    state: &'a str,
    dataset: &'a str,
    seed: u64,
    /// `null` is without end.
    epochs: Option<u64>,
    consumers: Vec<Consumer>,
    /// Splits that were given to a second worker because the first was late.
    raced: u64,
}

#[derive(Serialize)]
struct Consumer {
    consumer: u32,
    attached: bool,
    epoch: u64,
    split: u64,
    /// `null` is without end.
    splits: Option<u64>,
    leased: u32,
    skipped: u64,
}

fn some(n: u64) -> Option<u64> {
    Some(n).filter(|&n| n > 0)
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
    }
}

/// How far a consumer is, as people say it.
fn progress(consumer: &Consumer) -> String {
    let splits = consumer.splits.map_or_else(String::new, |n| format!("/{n}"));
    format!("epoch {} split {}{splits}", consumer.epoch, consumer.split)
}

pub(crate) fn run(arguments: &List) -> Result<()> {
    let jobs = connect(arguments)?.jobs(&mut go_on)?;
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
        // Whoever sees one tenant's jobs need not be told whose they are.
        let of_several = jobs.iter().any(|j| j.tenant != job.tenant);
        let name = if of_several { format!("{}/{}", job.tenant, job.name) } else { job.name.to_owned() };
        [name, job.state.to_owned(), epochs, consumers, skipped, job.raced.to_string(), slowest]
    };
    let headings = ["JOB", "STATE", "EPOCHS", "CONSUMERS", "SKIPPED", "RACED", "AT"];
    output::table(headings, &jobs.iter().map(row).collect::<Vec<_>>())
}
