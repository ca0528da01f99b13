//! Opens jobs: attaches to the job of that name, or checks, indexes, sizes and records a new one.
//!
//! Invariants: all clients that open a name at once get the same job, indexed once; a client never gets a job with
//! another definition than the requested one; an opening ends when its client leaves or the job is cancelled.

#![expect(clippy::disallowed_methods, reason = "the secret of a job")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Clock, ConsumerIndex, Error, ErrorKind, Result, Seed};
use forebay_io::Allowed;
use forebay_plan::{BlobId, Ending, EpochPlan, Graph, Stages};
use forebay_proto::{Build, IndexProgress, JobKey, OpenJobRequest, check_version};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::actor::handle::Handle;
use crate::indexing::{Indexed, Indexer, IndexingFigures, Indexings, Work};
use crate::records::JobRecord;
use crate::state::cancelled;
use crate::store::{BlobStore, Pin};
use crate::tenant::Tenant;

const NAME_BYTES_MAX: usize = 200;
const CONSUMERS_MAX: u32 = 1 << 16;
/// The largest weight of a job.
const WEIGHT_MAX: u32 = 1000;
/// The highest priority.
const PRIORITY_MAX: u32 = 9;

/// By tenant and name.
type Names = HashMap<(Arc<str>, String), Arc<Opening>>;

/// A name that is being opened.
#[derive(Default)]
struct Opening {
    /// The first client holds it, and the others wait.
    first: tokio::sync::Mutex<()>,
    cancelled: CancellationToken,
}

/// Opens jobs.
pub(crate) struct Opener {
    actor: Handle,
    blobs: BlobStore,
    indexer: Arc<dyn Indexer>,
    /// Each name of a tenant that is being opened.
    names: Mutex<Names>,
    indexings: Arc<Indexings>,
    /// Whether workers require the job's key from consumers: they do if there are tokens.
    with_keys: bool,
    /// The sources that pipelines of tenants without their own list may read; if empty, all.
    sources: Arc<[String]>,
}

impl Opener {
    pub(crate) fn new(
        actor: Handle,
        blobs: BlobStore,
        indexer: Arc<dyn Indexer>,
        clock: Arc<dyn Clock>,
        with_keys: bool,
        sources: Arc<[String]>,
    ) -> Self {
        let (names, indexings) = (Mutex::default(), Arc::new(Indexings::new(clock)));
        Self { actor, blobs, indexer, names, indexings, with_keys, sources }
    }

    pub(crate) fn figures(&self) -> IndexingFigures {
        self.indexings.figures()
    }

    /// Ends all openings of this name. Returns whether there was one.
    pub(crate) fn cancel(&self, tenant: &Arc<str>, name: &str) -> bool {
        let opening = self.names().remove(&(tenant.clone(), name.to_owned()));
        opening.as_ref().inspect(|opening| opening.cancelled.cancel()).is_some()
    }

    /// Opens a job of a tenant, and reports progress while its source is indexed.
    ///
    /// # Errors
    /// Version; Invalid for a request that can never be a job, or when blobs are missing, naming them; Conflict, naming
    /// the difference; Exhausted when the tenant's quota is used up; errors of indexing; Closed when the job was
    /// cancelled meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future ends the work.
    pub(crate) async fn open(
        &self,
        tenant: &Tenant,
        request: OpenJobRequest,
        progress: mpsc::Sender<IndexProgress>,
    ) -> Result<Arc<JobRecord>> {
        check_version("this client", &request.version, request.build.as_ref())?;
        check_request(&request)?;
        let graph = Graph::from_json(&request.graph)?;
        let name = (tenant.name.clone(), request.name.clone());
        let opening = self.names().entry(name).or_default().clone();
        let named = Named { names: &self.names, opening: Some(opening.clone()) };
        let job = request.name.clone();
        let opened = async {
            let _first = opening.first.lock().await;
            self.open_alone(tenant, request, graph, progress).await
        };
        let opened = tokio::select! {
            biased;
            () = opening.cancelled.cancelled() => {
                // The actor may have recorded the job just before.
                let _ = self.actor.cancel(tenant.name.clone(), job.clone()).await;
                Err(cancelled(&job))
            }
            opened = opened => opened,
        };
        drop((opening, named));
        opened
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open_alone(
        &self,
        tenant: &Tenant,
        request: OpenJobRequest,
        graph: Graph,
        progress: mpsc::Sender<IndexProgress>,
    ) -> Result<Arc<JobRecord>> {
        if let Some(job) = self.actor.find(tenant, &request.name).await? {
            compare(&job, &graph, &request)?;
            return Ok(job);
        }
        let blobs = self.blobs.of(&tenant.name).within(tenant.quota.blob_bytes);
        // Pinned until the job is known to need them.
        let _needed = blobs.pin(graph.blobs().into_iter().cloned());
        let sources = tenant.quota.sources.as_ref().unwrap_or(&self.sources).clone();
        let allowed = Allowed::of(&[&sources], !tenant.name.is_empty() || !sources.is_empty())?;
        let (indexer, source) = (self.indexer.clone(), graph.source().clone());
        let work = move |work: &Work| prepare(work, &*indexer, &blobs, &graph, &request, &allowed, &progress);
        let (mut record, splits, _index) = self.indexings.run(&tenant.name, &source, work).await?;
        tracing::info!(job = record.name, dataset = record.dataset, extent = record.extent, "a new job");
        record.tenant = tenant.name.to_string();
        record.sources = sources.to_vec();
        if self.with_keys {
            record.key = JobKey::from_bytes(uuid::Uuid::new_v4().as_bytes());
        }
        self.actor.create(record, splits, tenant.quota.clone()).await
    }
}

/// Holds a name open. The last holder removes it.
struct Named<'a> {
    names: &'a Mutex<Names>,
    opening: Option<Arc<Opening>>,
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        self.opening = None;
        // The map holds one reference.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|_, opening| Arc::strong_count(opening) > 1);
    }
}

/// Checks a job's name, which terminals, logs and web pages show.
///
/// # Errors
/// Invalid.
fn check_name(name: &str) -> Result<()> {
    let may_be_shown = |c: char| !c.is_control() && !changes_direction(c);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(may_be_shown) {
        return Ok(());
    }
    Err(Error::invalid(format!("{name:?} is no job name"))
        .hint(format!("use 1 to {NAME_BYTES_MAX} bytes without control characters and marks of text direction")))
}

/// Returns whether a character is invisible and reorders the text around it, so that one name looks like another.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn check_request(request: &OpenJobRequest) -> Result<()> {
    check_name(&request.name)?;
    if request.consumers == 0 || request.consumers > CONSUMERS_MAX {
        return Err(Error::invalid(format!("a job has 1 to {CONSUMERS_MAX} consumers, not {}", request.consumers)));
    }
    if request.weight > WEIGHT_MAX {
        return Err(Error::invalid(format!("a job weighs 1 to {WEIGHT_MAX}, not {}", request.weight)));
    }
    if request.priority > PRIORITY_MAX {
        return Err(Error::invalid(format!("a job has a priority of 0 to {PRIORITY_MAX}, not {}", request.priority)));
    }
    Ok(())
}

/// A client may attach to a job by name only if it is the same job.
fn compare(job: &JobRecord, graph: &Graph, request: &OpenJobRequest) -> Result<()> {
    let number = |what: &str, is: u64, was: u64| (is != was).then(|| format!("{what} is {is}, and was {was}"));
    let pipeline = || {
        let was = Graph::from_json(&job.graph).ok()?;
        (job.dataset != graph.dataset_id().to_string())
            .then(|| was.difference(graph).unwrap_or_else(|| "the pipeline differs".to_owned()))
    };
    let difference = pipeline()
        .or_else(|| number("seed", request.seed, job.seed))
        .or_else(|| number("epochs", request.epochs, job.epochs))
        .or_else(|| number("consumers", request.consumers.into(), job.consumers.into()))
        .or_else(|| (request.even != job.even).then(|| format!("even is {}, and was {}", request.even, job.even)))
        .or_else(|| {
            let (is, was) = (request.coordinated, job.coordinated);
            (is != was).then(|| format!("coordinated is {is}, and was {was}"))
        })
        .or_else(|| {
            let (is, was) = (Ending::from(request.ending()), job.ending);
            (is != was)
                .then(|| format!("how consumers end together (even=) is {:?}, and was {:?}", is.word(), was.word()))
        });
    match difference {
        None => Ok(()),
        Some(difference) => Err(Error::new(
            ErrorKind::Conflict,
            format!("there is a job {:?} already, and it differs: {difference}", job.name),
        )
        .hint(
            "use another job name, or cancel that job; a saved state fits a job of any name and number of consumers",
        )),
    }
}

/// Blocking: looks for the blobs, lists and indexes the source, and fixes the sizes. The index is pinned while the
/// returned pin lives.
fn prepare(
    work: &Work,
    indexer: &dyn Indexer,
    blobs: &BlobStore,
    graph: &Graph,
    request: &OpenJobRequest,
    allowed: &Allowed,
    progress: &mpsc::Sender<IndexProgress>,
) -> Result<(JobRecord, Vec<Option<u64>>, Pin)> {
    graph.check_on_service()?;
    let missing = blobs.missing(graph.blobs().into_iter().cloned())?;
    if !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(|id| id.0.as_str()).collect();
        return Err(Error::invalid(format!("job {:?} needs blobs that were not uploaded", request.name))
            .with("blobs", missing.join(", ")));
    }
    let stages = Stages::in_parts(graph, request.sharding().parts())?;
    let tell = |done, total| {
        // A slow client misses some steps of the progress.
        let _ = progress.try_send(IndexProgress { done, total });
        work.progress(done)
    };
    let Indexed { bytes, extent } = indexer.index(graph.source(), allowed, stages.counted, &tell)?;
    let kept = blobs.pin([BlobId::of(&bytes)]);
    let index = blobs.put(&bytes)?;
    let sizing = EpochPlan::new(&stages, extent.clone(), Seed(request.seed), request.sharding(), None)?.sizing();
    let json = |e: serde_json::Error| Error::internal(format!("cannot write a job down: {e}"));
    let record = JobRecord {
        id: 0,
        name: request.name.clone(),
        dataset: graph.dataset_id().to_string(),
        graph: request.graph.clone(),
        seed: request.seed,
        epochs: request.epochs,
        consumers: request.consumers,
        extent: serde_json::to_string(&extent).map_err(json)?,
        sizing: serde_json::to_string(&sizing).map_err(json)?,
        index: index.0,
        even: request.even,
        coordinated: request.coordinated,
        weight: request.weight.max(1),
        priority: request.priority,
        read_before: 0,
        cancelled: false,
        tenant: String::new(),
        key: JobKey::default(),
        sources: Vec::new(),
        ending: request.ending().into(),
        ends: Vec::new(),
        bits: Build::bits(request.build.clone())?.kept(graph),
    };
    let splits = splits(&record)?;
    Ok((record, splits, kept))
}

/// Returns how many splits an epoch of each consumer has; `None` is without end.
///
/// # Errors
/// Data when the record cannot be read.
pub(crate) fn splits(record: &JobRecord) -> Result<Vec<Option<u64>>> {
    let plan = record.plan()?;
    Ok((0..record.consumers).map(|i| plan.num_splits(ConsumerIndex(i))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_name_looks_like_no_other() {
        for name in ["a", "résumé", "日本語", "שלום", "a b/c", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let marks = ['\n', '\u{1b}', '\u{85}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'];
        let marked = marks.map(|mark| format!("a{mark}b"));
        for name in marked.iter().map(String::as_str).chain(["", &"x".repeat(NAME_BYTES_MAX + 1)]) {
            let error = check_name(name).expect_err(name);
            assert_eq!((error.kind(), error.get("hint").is_some()), (ErrorKind::Invalid, true), "{name:?}");
        }
    }
}
