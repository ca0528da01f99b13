//! The gRPC service: checks messages from outside, and passes them to the actor, the opener and the blob store.
//!
//! Invariant: each call first identifies its caller, and acts for the caller's tenant.

mod blobs;
pub(crate) mod consume;
pub(crate) mod requests;
mod session;
pub(crate) mod traces;
pub(crate) mod work;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::BitVersions;
use forebay_proto::{
    BlobPart, Build, CancelJobRequest, CancelJobResponse, ConsumerEvent, ConsumerMessage, Dispatcher, ForgetJobRequest,
    ForgetJobResponse, GetBlobRequest, GetScaleRequest, GetScaleResponse, GetVersionRequest, GetVersionResponse,
    ListJobsRequest, ListJobsResponse, ListWorkersRequest, ListWorkersResponse, MissingBlobsRequest,
    MissingBlobsResponse, OpenJobEvent, OpenJobRequest, PutBlobResponse, PutTraceResponse, TraceJobRequest, TracePart,
    UNNUMBERED_VERSION, WorkerEvent, WorkerMessage, open_job_event, to_status,
};
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::access::{Principal, Role, caller, caller_of};
use crate::jobs::Opener;
use crate::leader::leadership::{Leadership, Leading};
use crate::service::traces::Traces;
use crate::store::BlobStore;
use crate::tenant::check_name;

/// How long a session may take to send its first message.
const FIRST_MESSAGE_MAX: Duration = Duration::from_secs(10);
/// Roles that may compute: workers, and clients for consumers of their own (see [`work::begin`]).
const COMPUTES: [Role; 2] = [Role::Worker, Role::Client];
/// Progress events that may be queued for a client.
const PROGRESS_MAX: usize = 16;

/// The most tenants in the hint of an error.
const TENANTS_LISTED_MAX: usize = 5;

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers requests; while this process does not lead, with the leader's address.
pub(crate) struct Service {
    leadership: Arc<Leadership>,
    traces: Arc<Traces>,
}

impl Service {
    pub(crate) fn new(leadership: Arc<Leadership>, traces: Arc<Traces>) -> Self {
        Self { leadership, traces }
    }

    fn leading(&self) -> Result<Arc<Leading>, Status> {
        self.leadership.leading().map_err(refuse)
    }

    fn blobs(&self, tenant: &str) -> Result<BlobStore, Status> {
        Ok(self.leading()?.blobs.of(tenant))
    }
}

#[tonic::async_trait]
impl Dispatcher for Service {
    type GetBlobStream = Events<BlobPart>;
    type OpenJobStream = Events<OpenJobEvent>;
    type ConsumeStream = Events<ConsumerEvent>;
    type WorkStream = Events<WorkerEvent>;
    type TraceJobStream = Events<TracePart>;

    async fn get_version(&self, _: Request<GetVersionRequest>) -> Result<Response<GetVersionResponse>, Status> {
        self.leading()?;
        Ok(Response::new(GetVersionResponse {
            version: UNNUMBERED_VERSION.to_owned(),
            build: Some(Build::own(&BitVersions::own())),
        }))
    }

    async fn missing_blobs(
        &self,
        request: Request<MissingBlobsRequest>,
    ) -> Result<Response<MissingBlobsResponse>, Status> {
        let blobs = self.blobs(&caller(&request, Role::Client)?.tenant.name)?;
        let ids = blobs::missing(&blobs, request.into_inner().ids).await;
        Ok(Response::new(MissingBlobsResponse { ids: ids.map_err(refuse)? }))
    }

    async fn put_blob(&self, request: Request<Streaming<BlobPart>>) -> Result<Response<PutBlobResponse>, Status> {
        let tenant = &caller(&request, Role::Client)?.tenant;
        let blobs = self.blobs(&tenant.name)?.within(tenant.quota.blob_bytes);
        blobs::put(&blobs, request.into_inner()).await?;
        Ok(Response::new(PutBlobResponse {}))
    }

    async fn get_blob(&self, request: Request<GetBlobRequest>) -> Result<Response<Self::GetBlobStream>, Status> {
        let principal = caller_of(&request, &COMPUTES)?;
        let GetBlobRequest { id, tenant } = request.into_inner();
        let blobs = self.blobs(&whose(&principal, tenant).map_err(refuse)?)?;
        Ok(Response::new(Box::pin(blobs::get(&blobs, id))))
    }

    async fn open_job(&self, request: Request<OpenJobRequest>) -> Result<Response<Self::OpenJobStream>, Status> {
        let principal = caller(&request, Role::Client)?;
        let (events, stream) = mpsc::channel(PROGRESS_MAX);
        let opener = self.leading()?.opener.clone();
        tokio::spawn(open(opener, principal, request.into_inner(), events));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn consume(
        &self,
        request: Request<Streaming<ConsumerMessage>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        let principal = caller(&request, Role::Client)?;
        let (leading, inbound) = (self.leading()?, request.into_inner());
        Ok(Response::new(Box::pin(consume::begin(&leading.actor, &principal, inbound, &self.traces).await?)))
    }

    async fn work(&self, request: Request<Streaming<WorkerMessage>>) -> Result<Response<Self::WorkStream>, Status> {
        let principal = caller_of(&request, &COMPUTES)?;
        Ok(Response::new(Box::pin(work::begin(&self.leading()?.actor, &principal, request.into_inner()).await?)))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Result<Response<ListJobsResponse>, Status> {
        let sees = caller(&request, Role::Client)?.sees();
        let jobs = self.leading()?.actor.list_jobs(sees, request.into_inner().name).await;
        Ok(Response::new(ListJobsResponse { jobs: jobs.map_err(refuse)? }))
    }

    async fn get_scale(&self, request: Request<GetScaleRequest>) -> Result<Response<GetScaleResponse>, Status> {
        // The workers that all jobs want together concern all tenants, so only an administrator may see them.
        caller(&request, Role::Admin)?;
        Ok(Response::new(self.leading()?.actor.wanted().await.map_err(refuse)?))
    }

    async fn list_workers(
        &self,
        request: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        let sees = caller(&request, Role::Client)?.sees();
        Ok(Response::new(ListWorkersResponse {
            workers: self.leading()?.actor.list_workers(sees).await.map_err(refuse)?,
        }))
    }

    async fn cancel_job(&self, request: Request<CancelJobRequest>) -> Result<Response<CancelJobResponse>, Status> {
        let principal = caller(&request, Role::Client)?;
        let CancelJobRequest { name, tenant } = request.into_inner();
        let tenant = whose_job(&principal, &name, tenant)?;
        let leading = self.leading()?;
        let was_opened = leading.opener.cancel(&tenant, &name);
        let job = name.clone();
        match leading.actor.cancel(tenant.clone(), name).await {
            Err(error) if was_opened && error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(refuse(with_other_tenants(&leading, &principal, &tenant, &job, error).await)),
            Ok(()) => {}
        }
        Ok(Response::new(CancelJobResponse {}))
    }

    async fn forget_job(&self, request: Request<ForgetJobRequest>) -> Result<Response<ForgetJobResponse>, Status> {
        let principal = caller(&request, Role::Client)?;
        let ForgetJobRequest { name, tenant } = request.into_inner();
        let tenant = whose_job(&principal, &name, tenant)?;
        let (leading, job) = (self.leading()?, name.clone());
        if let Err(error) = leading.actor.forget(tenant.clone(), name).await {
            return Err(refuse(with_other_tenants(&leading, &principal, &tenant, &job, error).await));
        }
        Ok(Response::new(ForgetJobResponse {}))
    }

    async fn trace_job(&self, request: Request<TraceJobRequest>) -> Result<Response<Self::TraceJobStream>, Status> {
        let principal = caller(&request, Role::Client)?;
        let (leading, request) = (self.leading()?, request.into_inner());
        let tenant = whose_job(&principal, &request.name, request.tenant.clone())?;
        match self.traces.request(tenant.clone(), &request) {
            Ok(parts) => Ok(Response::new(Box::pin(parts))),
            Err(error) => {
                let error = if_over(&leading, &tenant, &request.name, error).await;
                Err(refuse(with_other_tenants(&leading, &principal, &tenant, &request.name, error).await))
            }
        }
    }

    async fn put_trace(&self, request: Request<Streaming<TracePart>>) -> Result<Response<PutTraceResponse>, Status> {
        let tenant = caller(&request, Role::Client)?.tenant.name.clone();
        self.traces.put(&tenant, request.into_inner()).await?;
        Ok(Response::new(PutTraceResponse {}))
    }
}

/// Opens a job, and sends its progress as often as the client reads it.
async fn open(
    opener: Arc<Opener>,
    principal: Arc<Principal>,
    request: OpenJobRequest,
    events: mpsc::Sender<Result<OpenJobEvent, Status>>,
) {
    let (progress, mut steps) = mpsc::channel(1);
    let opening = opener.open(&principal.tenant, request, progress);
    tokio::pin!(opening);
    let event = |event| Ok(OpenJobEvent { event: Some(event) });
    let opened = loop {
        tokio::select! {
            opened = &mut opening => break opened,
            Some(step) = steps.recv() => {
                let _ = events.send(event(open_job_event::Event::Progress(step))).await;
            }
            // An opening ends with its client, which frees its place.
            () = events.closed() => return,
        }
    };
    let last = match opened {
        Ok(record) => event(open_job_event::Event::Opened(record.definition())),
        Err(error) => Err(to_status(&error)),
    };
    // The client may be gone.
    let _ = events.send(last).await;
}

/// Returns the tenant whose blobs a worker may have: the tenant that it serves, or any tenant if it serves all. Other
/// tenants' blobs do not exist for it.
///
/// # Errors
/// Invalid when the name is not valid; NotFound.
fn whose(principal: &Principal, tenant: String) -> Result<Arc<str>> {
    match principal.serves() {
        Some(own) if *own != *tenant => Err(Error::new(ErrorKind::NotFound, "the dispatcher keeps no such blob")),
        _ if tenant.is_empty() => Ok(principal.tenant.name.clone()),
        _ => check_name(&tenant).map(|()| tenant.into()),
    }
}

/// Returns the tenant of a named job: the caller's own; for administrators the named one.
///
/// # Errors
/// PermissionDenied when a caller that is no administrator names a tenant.
fn whose_job(principal: &Principal, name: &str, tenant: String) -> Result<Arc<str>, Status> {
    if tenant.is_empty() {
        return Ok(principal.tenant.name.clone());
    }
    principal.must_be(Role::Admin).map_err(|e| refuse(e.with("job", name)))?;
    Ok(tenant.into())
}

/// Replaces the error that no process reads a job if the job is over.
async fn if_over(leading: &Leading, tenant: &Arc<str>, job: &str, error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    let jobs = leading.actor.list_jobs(Some(tenant.clone()), job.to_owned()).await.unwrap_or_default();
    match jobs.last().filter(|job| ["finished", "cancelled"].contains(&&*job.state)) {
        Some(over) => Error::new(ErrorKind::NotFound, format!("job {job:?} is {}, so no process reads it", over.state))
            .hint("trace a job while it is read"),
        None => error,
    }
}

/// Adds to the error that a tenant has no such job, for an administrator, which other tenants have one.
async fn with_other_tenants(leading: &Leading, principal: &Principal, tenant: &str, job: &str, error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound || principal.sees().is_some() || job.is_empty() {
        return error;
    }
    let jobs = leading.actor.list_jobs(None, job.to_owned()).await.unwrap_or_default();
    let others: BTreeSet<_> = jobs.iter().map(|job| &*job.tenant).filter(|of| *of != tenant).collect();
    let listed: Vec<_> = others.iter().take(TENANTS_LISTED_MAX).copied().collect();
    let Some(first) = listed.first() else { return error };
    let more = if others.len() > listed.len() { " and others" } else { "" };
    let hint = format!(
        "jobs of this name belong to: {}{more}; name the tenant, for example --tenant {first} (tenant={first:?} in Python)",
        listed.join(", ")
    );
    error.replace("hint", hint)
}

fn refuse(error: Error) -> Status {
    to_status(&error)
}

/// Waits for the first message of a session.
async fn first<T>(inbound: &mut Streaming<T>) -> Result<T, Status> {
    let message = tokio::time::timeout(FIRST_MESSAGE_MAX, inbound.message()).await;
    let late = || refuse(Error::invalid("the first message of a session did not arrive"));
    message.map_err(|_| late())??.ok_or_else(late)
}
