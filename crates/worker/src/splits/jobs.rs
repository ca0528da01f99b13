//! A job on this worker: its definition, and the executable that is built from it once and shared by all threads.
//!
//! Splits that are leased before the executable is ready wait for it here. A definition never changes. A dispatcher
//! that lost its state may give the same number to another job; the old job is forgotten first (see `lease_table`).

#![expect(clippy::disallowed_methods, reason = "what a job needs is asked for again within a bound")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use forebay_core::{Error, ErrorKind, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory};
use forebay_exec::{CacheContext, Environment, Executable, Functions, panicked};
use forebay_io::{Allowed, SourceIndex};
use forebay_plan::{BlobId, EpochPlan, Graph, Stages};
use forebay_proto::{JobDefinition, SampleStreamKey, may_pass};
use tokio::sync::Notify;

use crate::blobs::{BlobStore, Fetched};
use crate::compute::fair_queue::Share;
use crate::lock::lock;
use crate::options::{RETRIES_MAX, RETRY_PAUSE};
use crate::serve::encode::schema_frame;
use crate::splits::shared_chunks::{SharedChunks, Subscriber};
use crate::splits::split_buffer::SplitBuffer;

/// The longest pause between two attempts to fetch a job's blobs from the dispatcher.
const FETCH_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A job that can be computed.
pub(crate) struct Prepared {
    pub(crate) executable: Arc<Executable>,
    /// Runs the ops that Forebay's own consumers run themselves, for Arrow clients.
    pub(crate) finish: Arc<Executable>,
    /// Whether chunks carry the ids of their rows.
    pub(crate) with_ids: bool,
    /// The schema that any Arrow client reads.
    pub(crate) schema: SchemaRef,
    /// The message that begins every Flight stream of its chunks.
    pub(crate) schema_frame: FlightData,
    /// Its subscription to chunks of jobs with the same samples.
    pub(crate) subscriber: Subscriber,
    /// Its priority and weight beside other jobs.
    pub(crate) share: Share,
}

struct State<P> {
    prepared: Option<Result<Arc<P>>>,
    waiting: Vec<Arc<SplitBuffer>>,
    forgotten: bool,
}

/// A job, and the state of its preparation. `P` is the job in its prepared form.
pub(crate) struct Job<P = Prepared> {
    pub(crate) definition: JobDefinition,
    state: Mutex<State<P>>,
    changed: Notify,
}

impl<P> Job<P> {
    pub(crate) fn new(definition: JobDefinition) -> Self {
        let state = State { prepared: None, waiting: Vec::new(), forgotten: false };
        Self { definition, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Calls `ready` with the split and the prepared job, or the reason why there is none; at once, or once `set` is
    /// called.
    pub(crate) fn when_ready(&self, split: Arc<SplitBuffer>, ready: impl FnOnce(Arc<SplitBuffer>, Result<Arc<P>>)) {
        let mut state = lock(&self.state);
        match state.prepared.clone() {
            Some(prepared) => {
                drop(state);
                ready(split, prepared);
            }
            None => state.waiting.push(split),
        }
    }

    /// Ends the preparation, well or not, and returns the splits that have waited for it.
    pub(crate) fn set(&self, prepared: Result<Arc<P>>) -> Vec<Arc<SplitBuffer>> {
        let mut state = lock(&self.state);
        state.prepared = Some(prepared);
        self.changed.notify_waiters();
        std::mem::take(&mut state.waiting)
    }

    /// Returns whether the preparation failed because a service did not answer. Returns true once: the job is worth
    /// preparing again.
    pub(crate) fn take_unavailable(&self) -> bool {
        let mut state = lock(&self.state);
        let failed = matches!(&state.prepared, Some(Err(e)) if e.kind() == ErrorKind::Unavailable);
        if failed {
            state.prepared = None;
        }
        failed
    }

    pub(crate) fn forget(&self) {
        let mut state = lock(&self.state);
        state.forgotten = true;
        state.waiting.clear();
        self.changed.notify_waiters();
    }

    pub(crate) fn is_forgotten(&self) -> bool {
        lock(&self.state).forgotten
    }

    /// Returns whether the job is still being prepared.
    pub(crate) fn is_pending(&self) -> bool {
        lock(&self.state).prepared.is_none()
    }

    /// Returns the prepared job if it is ready.
    pub(crate) fn ready(&self) -> Option<Arc<P>> {
        lock(&self.state).prepared.clone()?.ok()
    }

    /// Returns the prepared job, or why there is none; `None` while it is being prepared.
    pub(crate) fn try_prepared(&self) -> Option<Result<Arc<P>>> {
        let state = lock(&self.state);
        match state.forgotten {
            true => Some(Err(Error::new(ErrorKind::Closed, "the job has ended"))),
            false => state.prepared.clone(),
        }
    }

    /// Waits for the prepared job.
    ///
    /// # Errors
    /// The reason why it could not be prepared; Closed when the job was forgotten.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn prepared(&self) -> Result<Arc<P>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(prepared) = self.try_prepared() {
                return prepared;
            }
            changed.await;
        }
    }
}

/// Fetches a job's blobs and opens its source. It waits for a dispatcher that does not answer until the job is
/// forgotten; it tries a storage that does not answer a few times.
pub(crate) async fn prepare(
    job: &Job,
    store: &BlobStore,
    functions: Arc<dyn Functions>,
    sources: Option<Arc<[String]>>,
    memory: Memory,
    cache_context: Option<CacheContext>,
    shared_chunks: &Arc<SharedChunks>,
) -> Result<Arc<Prepared>> {
    let definition = &job.definition;
    let graph = Graph::from_json(&definition.graph)?;
    let mut blobs = HashMap::new();
    for id in graph.blobs() {
        blobs.insert(id.clone(), fetch(job, store, id).await?);
    }
    let index = match definition.index.as_str() {
        "" => None,
        id => {
            let index = SourceIndex::from_bytes(&fetch(job, store, &BlobId(id.to_owned())).await?)?;
            Some(index.within(allowed(definition, sources.as_deref())?))
        }
    };
    let parse = |e: serde_json::Error| Error::internal(format!("the job's definition cannot be read: {e}"));
    let extent = serde_json::from_str(&definition.extent).map_err(parse)?;
    let sizing = serde_json::from_str(&definition.sizing).map_err(parse)?;
    let stages = Arc::new(Stages::in_parts(&graph, definition.sharding().parts())?);
    let plan = EpochPlan::new(&stages, extent, Seed(definition.seed), definition.sharding(), Some(sizing))?;
    let plan = Arc::new(plan);
    let environment = Environment {
        blobs: Arc::new(Fetched(blobs)),
        functions,
        memory,
        cache_context,
        watch: Arc::new(SystemClock::default()),
    };
    let join = || shared_chunks.join(SampleStreamKey::of(definition));
    let mut pause = RETRY_PAUSE;
    for _ in 0..RETRIES_MAX {
        match open(&stages, &plan, &index, &environment, join(), definition).await {
            Err(e) if e.kind() == ErrorKind::Unavailable => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    open(&stages, &plan, &index, &environment, join(), definition).await
}

/// Returns the sources that a job may read here: those of its tenant, as far as this worker allows them.
fn allowed(definition: &JobDefinition, here: Option<&[String]>) -> Result<Allowed> {
    let Some(here) = here else { return Ok(Allowed::everything()) };
    let is_bounded = !definition.tenant.is_empty() || !here.is_empty() || !definition.sources.is_empty();
    Allowed::of(&[here, &definition.sources], is_bounded)
}

async fn fetch(job: &Job, store: &BlobStore, id: &BlobId) -> Result<bytes::Bytes> {
    let mut pause = RETRY_PAUSE;
    loop {
        match store.get(id, &job.definition.tenant).await {
            Err(e) if may_pass(&e) && !job.is_forgotten() => {
                tracing::warn!(job = job.definition.name, error = e.message(), "waiting for a blob of the job");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(FETCH_PAUSE_MAX);
            }
            done => return done,
        }
    }
}

/// Opening reads files, so it runs on a thread that may block.
async fn open(
    stages: &Arc<Stages>,
    plan: &Arc<EpochPlan>,
    index: &Option<SourceIndex>,
    environment: &Environment,
    subscriber: Subscriber,
    definition: &JobDefinition,
) -> Result<Arc<Prepared>> {
    let (stages, plan, index, environment) = (stages.clone(), plan.clone(), index.clone(), environment.clone());
    let (end_epoch, before) = ((definition.epochs > 0).then_some(definition.epochs), definition.read_before.into());
    let share = Share { priority: definition.priority, weight: definition.weight };
    let open = move || {
        let (with_ids, with_parts) = (stages.tail_needs_ids(), stages.has_parts());
        let finish = Executable::for_consumer(stages.clone(), plan.clone(), &environment)?;
        let executable = Executable::for_worker(stages, plan, index, &environment)?;
        executable.expect(end_epoch, before);
        let schema = Chunk::wire_schema(finish.schema(), with_ids, with_parts);
        let schema_frame = schema_frame(&schema);
        Ok(Arc::new(Prepared { executable, finish, with_ids, schema, schema_frame, subscriber, share }))
    };
    match tokio::task::spawn_blocking(open).await {
        Ok(done) => done,
        Err(e) if e.is_panic() => Err(panicked(&*e.into_panic())),
        Err(_) => Err(Error::new(ErrorKind::Closed, "the worker stops")),
    }
}
