//! Opens a job: uploads its blobs, has the dispatcher record it, and plans it as the dispatcher recorded it.

#![expect(clippy::disallowed_methods, reason = "an opening is repeated while the dispatcher restarts")]

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result, Seed};
use forebay_plan::{BitVersions, BlobId, Ending, EpochPlan, Graph, Sharding, Stages};
use forebay_proto::open_job_event::Event;
use forebay_proto::{Build, JobDefinition, OpenJobRequest, UNNUMBERED_VERSION, client, leader, may_pass, to_error};

use crate::blobs::{TailBlobs, upload};
use crate::job::{JobSpec, OpenedJob};
use crate::options::POLL;
use crate::runtime::runtime;
use crate::service::Service;

/// A message from the task that opens a job.
enum OpenEvent {
    Progress(u64, u64),
    Done(Box<Result<JobDefinition>>),
}

impl Service {
    /// Creates a job, or attaches to the existing job of that name. `blobs` returns the blobs that the graph refers to;
    /// `progress` gets the number of indexed files (done, total); `poll` is called about every 50 ms. All three are
    /// called on this thread.
    ///
    /// # Errors
    /// Conflict if a different job has the name; the error names the difference. The errors of indexing the source;
    /// Unavailable.
    pub fn open_job(
        &self,
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
        upload(self, &spec.graph.blobs(), blobs, poll)?;
        let tail = Arc::new(TailBlobs::of(&stages, blobs)?);
        let request = OpenJobRequest {
            version: UNNUMBERED_VERSION.to_owned(),
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
            build: Some(Build::own(&BitVersions::own())),
        };
        let definition = open_with_retries(self, &request, progress, poll)?;
        // The job's creator may have ordered the same ops differently. Saved positions depend on the order, so this
        // process uses the creator's.
        let graph = spec.graph.clone().ordered_as(&Graph::from_json(&definition.graph)?);
        let stages = Arc::new(Stages::in_parts(&graph, definition.sharding().parts())?);
        let parse = |e: serde_json::Error| Error::internal(format!("the job's definition cannot be read: {e}"));
        let extent = serde_json::from_str(&definition.extent).map_err(parse)?;
        let sizing = serde_json::from_str(&definition.sizing).map_err(parse)?;
        let plan = EpochPlan::new(&stages, extent, Seed(definition.seed), definition.sharding(), Some(sizing))?;
        Ok(OpenedJob {
            dispatcher: self.leader().remote().clone(),
            definition,
            stages,
            plan: Arc::new(plan),
            blobs: tail,
        })
    }
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
