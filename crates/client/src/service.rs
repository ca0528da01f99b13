//! The client of one Forebay service: calls to the dispatcher that leads.

#![expect(clippy::disallowed_methods, reason = "a call is repeated until its deadline")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{
    CancelJobRequest, DispatcherClient, ForgetJobRequest, GetScaleRequest, GetScaleResponse, JobStatus, Link,
    ListJobsRequest, ListWorkersRequest, Remote, TraceJobRequest, WorkerStatus, client, may_pass, to_error, unanswered,
};
use tonic::{Response, Status};

use crate::leader::Leader;
use crate::retry::NonIdempotentCall;
use crate::runtime::wait;

/// The pause between attempts of a call that got no answer.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a trace may take to be written and sent, after it was recorded.
const TRACE_SENT_MAX: Duration = Duration::from_secs(30);

/// A trace of a consumer's process.
#[derive(Debug)]
pub struct Trace {
    /// A Chrome trace (JSON).
    pub file: Vec<u8>,
    /// How long it was recorded, if the consumer's stream ended before the requested time.
    pub ended: Option<Duration>,
}

/// A service: the addresses of its dispatchers, one of which has answered. Cheap to hold; works in a parent and in its
/// forked children.
pub struct Service {
    deadline: Duration,
    leader: Arc<Leader>,
}

impl Service {
    /// Connects to the dispatcher, or to the leader if there are several; waits up to `deadline` for an answer. Each
    /// later call waits as long for a dispatcher to restart or for a new leader.
    ///
    /// # Errors
    /// Invalid for a malformed address; Unavailable if no dispatcher answers in time; Version if the dispatcher has
    /// another version; PermissionDenied if either side does not trust the other; the error of `poll`.
    pub fn connect(dispatcher: Remote, deadline: Duration, poll: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let leader = Arc::new(Leader::new(dispatcher));
        let first = leader.clone();
        wait(async move { first.reach(deadline).await }, poll)?;
        Ok(Self { deadline, leader })
    }

    /// Returns the address as the user gave it.
    pub fn address(&self) -> &str {
        self.leader.addresses()
    }

    /// Returns the connection to the leader, which all calls share.
    pub(crate) fn leader(&self) -> &Arc<Leader> {
        &self.leader
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Lists the jobs, each with its last few scaling decisions. With a name, lists the jobs of that name with all
    /// decisions that the dispatcher keeps.
    ///
    /// # Errors
    /// Unavailable.
    pub fn jobs(&self, name: Option<&str>, poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<JobStatus>> {
        let request = ListJobsRequest { name: name.unwrap_or_default().to_owned() };
        let call = move |mut c: DispatcherClient<Link>| {
            let request = request.clone();
            async move { c.list_jobs(request).await }
        };
        Ok(self.call(call, poll)?.jobs)
    }

    /// Returns how many workers all jobs together want.
    ///
    /// # Errors
    /// PermissionDenied unless the caller is an administrator; Unavailable.
    pub fn scale(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<GetScaleResponse> {
        self.call(async |mut c| c.get_scale(GetScaleRequest {}).await, poll)
    }

    /// Lists the workers.
    ///
    /// # Errors
    /// Unavailable.
    pub fn workers(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<WorkerStatus>> {
        Ok(self.call(async |mut c| c.list_workers(ListWorkersRequest {}).await, poll)?.workers)
    }

    /// Ends a job permanently; its consumers get a Closed error. Only an administrator may name a tenant; `None` means
    /// the caller's own.
    ///
    /// # Errors
    /// NotFound if no job has that name; PermissionDenied; Unavailable.
    pub fn cancel(&self, name: &str, tenant: Option<&str>, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let request = CancelJobRequest { name: name.to_owned(), tenant: tenant.unwrap_or_default().to_owned() };
        let attempts = NonIdempotentCall::new(ErrorKind::Closed);
        let call = move |mut c: DispatcherClient<Link>| {
            let (request, attempts) = (request.clone(), attempts.clone());
            async move { attempts.outcome(c.cancel_job(request).await) }
        };
        self.call(call, poll).map(drop)
    }

    /// Removes a job that is finished or was cancelled. Only an administrator may name a tenant; `None` means the
    /// caller's own.
    ///
    /// # Errors
    /// NotFound if no job has that name; Conflict while the job runs; PermissionDenied; Unavailable.
    pub fn forget(&self, name: &str, tenant: Option<&str>, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let request = ForgetJobRequest { name: name.to_owned(), tenant: tenant.unwrap_or_default().to_owned() };
        let attempts = NonIdempotentCall::new(ErrorKind::NotFound);
        let call = move |mut c: DispatcherClient<Link>| {
            let (request, attempts) = (request.clone(), attempts.clone());
            async move { attempts.outcome(c.forget_job(request).await) }
        };
        self.call(call, poll).map(drop)
    }

    /// Has consumer `consumer` of a job record a trace for some seconds. Ends early if the
    /// consumer's stream does. Only an administrator may name a tenant; `None` means the caller's own.
    ///
    /// # Errors
    /// NotFound if no process reads as that consumer; Invalid for a time out of range, or if the process records a trace
    /// already; PermissionDenied; Unavailable if the trace does not come in time.
    pub fn trace(
        &self,
        name: &str,
        tenant: Option<&str>,
        (consumer, seconds): (u32, u32),
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Trace> {
        let tenant = tenant.unwrap_or_default().to_owned();
        let request = TraceJobRequest { name: name.to_owned(), tenant, consumer, seconds };
        let none = format!("consumer {consumer} of job {name:?} sent no trace: its process has ended");
        let leader = self.leader.clone();
        let most = Duration::from_secs(seconds.into()) + TRACE_SENT_MAX;
        let traced = async move {
            let failed = |status: Status| to_error(&status, leader.addresses());
            let mut parts = client(leader.link().await?).trace_job(request).await.map_err(failed)?.into_inner();
            let (mut file, mut ended) = (Vec::new(), None);
            while let Some(part) = parts.message().await.map_err(failed)? {
                if !part.error.is_empty() {
                    return Err(Error::from_json(&part.error));
                }
                file.extend(part.data);
                ended = part.ended_ms.map(Duration::from_millis).or(ended);
            }
            match file.is_empty() {
                true => Err(Error::unavailable(none)),
                false => Ok(Trace { file, ended }),
            }
        };
        let in_time = async move {
            let late = || Err(Error::unavailable(format!("no trace came within {} s", most.as_secs())));
            tokio::time::timeout(most, traced).await.unwrap_or_else(|_| late())
        };
        wait(in_time, poll)
    }

    /// Makes a call; retries it until the deadline while no dispatcher answers.
    pub(crate) fn call<T, F>(
        &self,
        call: impl Fn(DispatcherClient<Link>) -> F + Send + 'static,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<Response<T>, Status>> + Send + 'static,
    {
        let (leader, deadline) = (self.leader.clone(), self.deadline);
        let patient = async move {
            let end = tokio::time::Instant::now() + deadline;
            loop {
                let silent = || Error::unavailable("no answer");
                let connected = tokio::time::timeout_at(end, leader.link()).await.unwrap_or_else(|_| Err(silent()));
                let error = match connected.map(|link| call(client(link))) {
                    Ok(asked) => match tokio::time::timeout_at(end, asked).await {
                        Ok(Ok(response)) => return Ok(response.into_inner()),
                        Ok(Err(status)) => to_error(&status, leader.addresses()),
                        Err(_) => return Err(unanswered(leader.addresses(), deadline)),
                    },
                    Err(e) if e.kind() == ErrorKind::Unavailable => {
                        unanswered(leader.addresses(), deadline).with("cause", e.get("cause").unwrap_or(e.message()))
                    }
                    Err(e) => e,
                };
                if !may_pass(&error) || tokio::time::Instant::now() + PAUSE >= end {
                    return Err(error);
                }
                leader.failed(&error);
                tokio::time::sleep(PAUSE).await;
            }
        };
        wait(patient, poll)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("address", &self.address()).finish_non_exhaustive()
    }
}
