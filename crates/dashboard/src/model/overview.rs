//! A whole service at a glance.

use std::collections::BTreeMap;

use forebay_proto::{JobStatus, WorkerStatus};
use serde::Serialize;

use super::{Alarm, Page, Scale, Snapshot, Summary, alarms};

/// A service in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Overview<'a> {
    /// The version of the service.
    pub version: &'static str,
    /// When the dispatcher was asked, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many jobs match the search.
    pub jobs_found: usize,
    /// All jobs that the caller may see, by state.
    pub jobs_by_state: BTreeMap<&'a str, usize>,
    /// The page of jobs.
    pub jobs: Vec<Summary<'a>>,
    /// The workers in figures.
    pub workers: WorkerCounts<'a>,
    /// `null` for callers that are no administrators.
    pub scale: Option<Scale<'a>>,
    /// The alarms, the worst first.
    pub alarms: Vec<Alarm>,
}

/// Workers in figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkerCounts<'a> {
    /// Workers that are not lost.
    pub live: usize,
    /// Their threads.
    pub threads: u64,
    /// All workers, by state.
    pub by_state: BTreeMap<&'a str, usize>,
    /// Live workers, by kind.
    pub by_kind: BTreeMap<&'a str, usize>,
    /// The cost of the live workers for an hour.
    pub price: f64,
}

impl<'a> Overview<'a> {
    /// Makes the JSON of a snapshot; `spark` returns the last rates of a job.
    pub fn of(snapshot: &'a Snapshot, page: &Page, spark: impl Fn(&JobStatus) -> Vec<f32>) -> Self {
        let (jobs, jobs_found) = page.jobs(&snapshot.jobs);
        let mut jobs_by_state = BTreeMap::new();
        snapshot.jobs.iter().for_each(|job| *jobs_by_state.entry(&*job.state).or_default() += 1);
        Self {
            version: forebay_core::VERSION,
            at_ms: snapshot.at_ms,
            jobs_found,
            jobs_by_state,
            jobs: jobs.into_iter().map(|job| Summary::of(job, snapshot, spark(job))).collect(),
            workers: WorkerCounts::of(&snapshot.workers),
            scale: snapshot.scale.as_ref().map(Scale::of),
            alarms: alarms(snapshot),
        }
    }
}

impl<'a> WorkerCounts<'a> {
    /// Counts workers.
    pub fn of(workers: &'a [WorkerStatus]) -> Self {
        let mut counts = Self::default();
        for worker in workers {
            *counts.by_state.entry(&worker.state).or_default() += 1;
            if worker.state != "lost" {
                counts.live += 1;
                counts.threads += u64::from(worker.threads);
                counts.price += worker.price;
                *counts.by_kind.entry(&worker.kind).or_default() += 1;
            }
        }
        counts
    }
}
