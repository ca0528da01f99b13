//! The specification of a job, and an opened job.

#![expect(clippy::disallowed_methods, reason = "an opening is repeated while the dispatcher restarts")]

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result, Seed, SystemClock, VERSION};
use forebay_data::Memory;
use forebay_exec::{Environment, Executable, Functions};
use forebay_plan::{BlobId, Ending, EpochPlan, Graph, Sharding, Stages};
use forebay_proto::open_job_event::Event;
use forebay_proto::{JobDefinition, JobKey, OpenJobRequest, Remote, client, leader, may_pass, to_error};

use crate::blobs::{TailBlobs, upload};
use crate::options::POLL;
use crate::runtime::runtime;
use crate::service::Service;

/// The specification of a job.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The name under which all consumers open the job.
    pub name: String,
    /// The pipeline.
    pub graph: Graph,
    /// The seed of all random numbers.
    pub seed: Seed,
    /// Passes over the pipeline; `None` for a job without end.
    pub epochs: Option<u64>,
    /// The number of consumers that share the job; at least 1.
    pub consumers: u32,
    /// Whether all consumers get equally many batches in every epoch. `None` means yes if there are several consumers
    /// and the plan knows the counts.
    pub even: Option<bool>,
    /// How all consumers end an epoch together if the plan does not know how many batches each has. `None` means
    /// `Drop`, unless `even` is `Some(false)`.
    pub ending: Option<Ending>,
    /// Whether all consumers get batches of the same bucket at each step. Default: false.
    pub coordinated: bool,
    /// The job's share of the workers, relative to other jobs, when jobs want more workers than there are: 1 to 1000.
    /// Default: 1.
    pub weight: u32,
    /// Jobs of a higher priority get workers first: 0 to 9. Default: 0.
    pub priority: u32,
}

/// A job that the dispatcher has recorded.
#[derive(Clone)]
pub struct OpenedJob {
    pub(crate) dispatcher: Remote,
    definition: JobDefinition,
    stages: Arc<Stages>,
    plan: Arc<EpochPlan>,
    blobs: Arc<TailBlobs>,
}

impl OpenedJob {
    /// Returns the job's name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the job's number at the dispatcher.
    pub fn id(&self) -> u64 {
        self.definition.job
    }

    /// Returns the key that the job's workers require; an empty key if the dispatcher has no tokens.
    pub(crate) fn key(&self) -> JobKey {
        JobKey::from_bytes(&self.definition.key)
    }

    /// Returns the seed with which the job was created.
    pub fn seed(&self) -> Seed {
        Seed(self.definition.seed)
    }

    /// Returns the number of epochs; `None` for a job without end.
    pub fn epochs(&self) -> Option<u64> {
        Some(self.definition.epochs).filter(|&n| n > 0)
    }

    /// Returns the number of consumers that share the job.
    pub fn consumers(&self) -> u32 {
        self.definition.consumers
    }

    /// Returns how all consumers end an epoch together.
    pub fn ending(&self) -> Ending {
        self.definition.ending().into()
    }

    /// Returns the stages, which define where each op runs.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.stages
    }

    /// Returns the epoch plan, which defines the rows of each split.
    pub fn plan(&self) -> &Arc<EpochPlan> {
        &self.plan
    }

    /// Prepares the ops that run in this process.
    pub(crate) fn executable(&self, functions: Arc<dyn Functions>, memory: Memory) -> Result<Arc<Executable>> {
        let environment = Environment {
            blobs: self.blobs.clone(),
            functions,
            memory,
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        Executable::for_consumer(self.stages.clone(), self.plan.clone(), &environment)
    }
}

/// A message from the task that opens a job.
enum OpenEvent {
    Progress(u64, u64),
    Done(Box<Result<JobDefinition>>),
}

pub(crate) fn open(
    service: &Service,
    spec: &JobSpec,
    blobs: &dyn Fn(&BlobId) -> Option<Bytes>,
    progress: &mut dyn FnMut(u64, u64),
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<OpenedJob> {
    if spec.epochs == Some(0) {
        return Err(Error::invalid("a job has at least 1 epoch").hint("epochs=None is without end"));
    }
    spec.graph.check_on_service()?;
    let (stages, sharding) = Sharding::choose(&spec.graph, spec.consumers, spec.even, spec.coordinated)?;
    let ending = Ending::choose(&spec.graph, &stages, sharding, spec.even, spec.ending);
    upload(service, &spec.graph.blobs(), blobs, poll)?;
    let tail = Arc::new(TailBlobs::of(&stages, blobs)?);
    let request = OpenJobRequest {
        version: VERSION.to_owned(),
        name: spec.name.clone(),
        graph: spec.graph.to_json(),
        seed: spec.seed.0,
        epochs: spec.epochs.unwrap_or(0),
        consumers: spec.consumers,
        even: sharding.even,
        coordinated: spec.coordinated,
        weight: spec.weight,
        priority: spec.priority,
        ending: forebay_proto::Ending::from(ending).into(),
    };
    let definition = open_with_retries(service, &request, progress, poll)?;
    // The job's creator may have ordered the same ops differently. Saved positions depend on the order, so this process
    // uses the creator's.
    let graph = spec.graph.clone().ordered_as(&Graph::from_json(&definition.graph)?);
    let stages = Arc::new(Stages::in_parts(&graph, definition.sharding().parts())?);
    let parse = |e: serde_json::Error| Error::internal(format!("the job's definition cannot be read: {e}"));
    let extent = serde_json::from_str(&definition.extent).map_err(parse)?;
    let sizing = serde_json::from_str(&definition.sizing).map_err(parse)?;
    let plan = EpochPlan::new(&stages, extent, Seed(definition.seed), definition.sharding(), Some(sizing))?;
    Ok(OpenedJob {
        dispatcher: service.leader().remote().clone(),
        definition,
        stages,
        plan: Arc::new(plan),
        blobs: tail,
    })
}

/// Opens a job; retries while the dispatcher restarts. Opening is idempotent.
fn open_with_retries(
    service: &Service,
    request: &OpenJobRequest,
    progress: &mut dyn FnMut(u64, u64),
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<JobDefinition> {
    let start = Instant::now();
    loop {
        match open_once(service, request.clone(), progress, poll) {
            Err(e) if may_retry(&e, service) && start.elapsed() < service.deadline() => {
                service.leader().failed(&e);
                poll()?;
                std::thread::sleep(POLL);
            }
            done => return done,
        }
    }
}

/// Returns whether a retry may succeed. A storage that does not answer the dispatcher is Unavailable too, but that
/// error names no dispatcher.
fn may_retry(error: &Error, service: &Service) -> bool {
    let ours = error.get("address") == Some(service.address()) || leader(error).is_some();
    may_pass(error) && (ours || error.kind() != ErrorKind::Unavailable)
}

fn open_once(
    service: &Service,
    request: OpenJobRequest,
    progress: &mut dyn FnMut(u64, u64),
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<JobDefinition> {
    let dispatcher = service.leader().clone();
    // The dispatcher sends progress rarely, so the unbounded channel stays short even if the callback is slow.
    let (sender, events) = mpsc::channel();
    let task = runtime()?.spawn(async move {
        let failed = |status: tonic::Status| to_error(&status, dispatcher.addresses());
        let opened = async {
            let mut events = client(dispatcher.link().await?).open_job(request).await.map_err(failed)?.into_inner();
            while let Some(event) = events.message().await.map_err(failed)? {
                match event.event {
                    Some(Event::Progress(p)) => drop(sender.send(OpenEvent::Progress(p.done, p.total))),
                    Some(Event::Opened(definition)) => return Ok(definition),
                    None => {}
                }
            }
            Err(Error::internal("the dispatcher ended without opening the job"))
        };
        let done = opened.await;
        let _ = sender.send(OpenEvent::Done(Box::new(done)));
    });
    let outcome = loop {
        match events.recv_timeout(POLL) {
            Ok(OpenEvent::Progress(done, total)) => progress(done, total),
            Ok(OpenEvent::Done(done)) => break *done,
            Err(mpsc::RecvTimeoutError::Disconnected) => break Err(Error::internal("a task of the client failed")),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Err(error) = poll() {
                    break Err(error);
                }
            }
        }
    };
    task.abort();
    outcome
}
