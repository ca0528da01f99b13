//! The paths of the API.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use hyper::{Request, StatusCode};
use serde::Serialize;

use super::answer::{Answer, failure, json, json_text, refusal};
use super::assets;
use super::guard;
use super::live::{self, LiveSlots};
use super::query::{Query, View};
use crate::feed::calls::Caller;
use crate::feed::store::Store;
use crate::model::{Caching, Detail, Page, Scale, Snapshot, Summary, Worker, WorkerCounts};

/// The beginning of the paths of the API.
const API: &str = "/api/v1/";

/// The state that requests use.
pub(super) struct Site {
    pub(super) store: Arc<Store>,
    /// Names of hosts that are allowed.
    pub(super) hosts: Vec<String>,
    pub(super) live: Arc<LiveSlots>,
}

/// A page of jobs in JSON.
#[derive(Serialize)]
struct Jobs<'a> {
    at_ms: u64,
    found: usize,
    jobs: Vec<Summary<'a>>,
}

/// The caches of jobs in JSON.
#[derive(Serialize)]
struct Caches<'a> {
    at_ms: u64,
    jobs: Vec<JobCache<'a>>,
}

/// The caches of one job in its workers, in JSON.
#[derive(Serialize)]
struct JobCache<'a> {
    tenant: &'a str,
    name: &'a str,
    caching: Vec<Caching<'a>>,
}

/// A page of workers in JSON.
#[derive(Serialize)]
pub(super) struct Workers<'a> {
    at_ms: u64,
    found: usize,
    counts: WorkerCounts<'a>,
    workers: Vec<Worker<'a>>,
}

/// Answers a request.
pub(super) async fn respond<B>(request: &Request<B>, site: &Arc<Site>) -> Answer {
    if let Err(refused) = guard::check(request, &site.hosts) {
        return refusal(refused.status, &refused.error);
    }
    let path = request.uri().path();
    match path.strip_prefix(API) {
        Some(what) => match api(request, what, site).await {
            Ok(answer) => answer,
            Err(error) => failure(&error),
        },
        None => assets::find(path, request.headers()).unwrap_or_else(|| not_found(path)),
    }
}

fn not_found(path: &str) -> Answer {
    let path: String = path.chars().take(80).collect();
    let error = Error::new(ErrorKind::NotFound, format!("there is nothing at {path:?}"));
    failure(&error.hint("the pages are at /, the API at /api/v1/openapi.json"))
}

async fn api<B>(request: &Request<B>, what: &str, site: &Arc<Site>) -> Result<Answer> {
    if what == "openapi.json" {
        return Ok(json_text(assets::OPENAPI));
    }
    let caller = Caller::Visitor(guard::token(request.headers())?);
    let query = Query::parse(request.uri().query().unwrap_or_default())?;
    let store = &site.store;
    Ok(match what {
        "overview" => json(&store.overview(&*store.snapshot(&caller).await?, &query.page)),
        "jobs" => {
            let seen = store.snapshot(&caller).await?;
            let all = store.overview(&seen, &query.page);
            json(&Jobs { at_ms: all.at_ms, found: all.jobs_found, jobs: all.jobs })
        }
        "job" => {
            let (job, seen) = job(store, &caller, &query).await?;
            json(&Detail::of(&job, &seen))
        }
        "cache" => json(&caches(&*store.snapshot(&caller).await?, &query.page)),
        "workers" => json(&workers(&*store.snapshot(&caller).await?, &query.page)),
        "scale" => {
            let seen = store.snapshot(&caller).await?;
            match &seen.scale {
                Some(scale) => json(&Scale::of(scale)),
                None => {
                    let message = "the workers that all jobs want together are for administrators";
                    refusal(StatusCode::FORBIDDEN, &Error::new(ErrorKind::PermissionDenied, message))
                }
            }
        }
        "history" => {
            let (job, _) = job(store, &caller, &query).await?;
            json(&store.series(&job))
        }
        "events" => json(&store.list_events(&*store.snapshot(&caller).await?, &query.search, query.events)),
        "live" => {
            // The first call decides whether the caller may open the stream.
            match query.view {
                View::Job => drop(job(store, &caller, &query).await?),
                _ => drop(store.snapshot(&caller).await?),
            }
            live::stream(store.clone(), &site.live, caller, query)?
        }
        _ => not_found(request.uri().path()),
    })
}

/// Returns a job as the caller may see it, with the workers that it may see.
pub(super) async fn job(
    store: &Store,
    caller: &Caller,
    query: &Query,
) -> Result<(forebay_proto::JobStatus, Arc<Snapshot>)> {
    let job = store.job(caller, &query.name, query.tenant.as_deref()).await?;
    Ok((job, store.snapshot(caller).await?))
}

fn caches<'a>(seen: &'a Snapshot, page: &Page) -> Caches<'a> {
    let (jobs, _) = page.jobs(&seen.jobs);
    let of = |job: &'a forebay_proto::JobStatus| JobCache {
        tenant: &job.tenant,
        name: &job.name,
        caching: job.caching.iter().map(Caching::of).collect(),
    };
    Caches { at_ms: seen.at_ms, jobs: jobs.into_iter().filter(|job| !job.caching.is_empty()).map(of).collect() }
}

pub(super) fn workers<'a>(seen: &'a Snapshot, page: &Page) -> Workers<'a> {
    let (workers, found) = page.workers(&seen.workers);
    let counts = WorkerCounts::of(&seen.workers);
    Workers { at_ms: seen.at_ms, found, counts, workers: workers.into_iter().map(Worker::of).collect() }
}
