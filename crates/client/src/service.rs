//! A dispatcher, as a user sees it.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Result;
use forebay_plan::BlobId;
use forebay_proto::{
    CancelJobRequest, DispatcherClient, GetScaleRequest, GetScaleResponse, JobStatus, Link, ListJobsRequest,
    ListWorkersRequest, Remote, WorkerStatus, client, may_pass, reach, to_error, unanswered,
};
use tonic::{Response, Status};

use crate::job::{JobSpec, OpenedJob, open};
use crate::lock::lock;
use crate::runtime::{Owner, runtime, wait};

/// The pause before a call that was not answered is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// A service: the address of a dispatcher that has answered. Cheap to keep; works on both sides of a fork.
pub struct Service {
    dispatcher: Remote,
    deadline: Duration,
    link: Mutex<Option<(Owner, Link)>>,
}

impl Service {
    /// Connects to a dispatcher, and waits up to `deadline` for it to answer. Every later call waits as long for one that is
    /// restarting.
    ///
    /// # Errors
    /// Invalid when it is no address; Unavailable when nobody answers in time; Version when it is another version;
    /// PermissionDenied when one side does not trust the other; what `poll` returns.
    pub fn connect(dispatcher: Remote, deadline: Duration, poll: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let to = dispatcher.clone();
        wait(async move { reach(&to, deadline).await.map(drop) }, poll)?;
        Ok(Self { dispatcher, deadline, link: Mutex::new(None) })
    }

    /// Returns the address as it was given.
    pub fn address(&self) -> &str {
        &self.dispatcher.address
    }

    pub(crate) fn dispatcher(&self) -> &Remote {
        &self.dispatcher
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Creates a job, or attaches to the one of its name. `blobs` gives what travels with the graph; `progress` is told
    /// of files (done, total) while the source is indexed; `poll` is called about every 50 ms. All three are called on
    /// this thread.
    ///
    /// # Errors
    /// Conflict when another job has the name, saying what differs; whatever indexing the source gives; Unavailable.
    pub fn open_job(
        &self,
        spec: &JobSpec,
        blobs: &dyn Fn(&BlobId) -> Option<Bytes>,
        progress: &mut dyn FnMut(u64, u64),
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<OpenedJob> {
        open(self, spec, blobs, progress, poll)
    }

    /// Lists the jobs, each with the last few decisions on its workers; with a name, those of that name with all that are kept.
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

    /// Returns how many workers the jobs want together.
    ///
    /// # Errors
    /// PermissionDenied for all but administrators; Unavailable.
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

    /// Ends a job for good; its readers get a Closed error. Only an administrator may name a tenant; `None` is one's own.
    ///
    /// # Errors
    /// NotFound when there is none of that name; PermissionDenied; Unavailable.
    pub fn cancel(&self, name: &str, tenant: Option<&str>, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let (name, tenant) = (name.to_owned(), tenant.unwrap_or_default().to_owned());
        self.call(
            move |mut c| {
                let request = CancelJobRequest { name: name.clone(), tenant: tenant.clone() };
                async move { c.cancel_job(request).await }
            },
            poll,
        )
        .map(drop)
    }

    /// Makes a call, again and again until the deadline while nobody answers.
    pub(crate) fn call<T, F>(
        &self,
        call: impl Fn(DispatcherClient<Link>) -> F + Send + 'static,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<Response<T>, Status>> + Send + 'static,
    {
        let (link, address, deadline) = (self.link()?, self.dispatcher.address.clone(), self.deadline);
        let patient = async move {
            let end = tokio::time::Instant::now() + deadline;
            loop {
                let answer = tokio::time::timeout_at(end, call(client(link.clone()))).await;
                let error = match answer {
                    Ok(Ok(response)) => return Ok(response.into_inner()),
                    Ok(Err(status)) => to_error(&status, &address),
                    Err(_) => return Err(unanswered(&address, deadline)),
                };
                if !may_pass(&error) || tokio::time::Instant::now() + PAUSE >= end {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        wait(patient, poll)
    }

    /// Returns the connection of this process.
    pub(crate) fn link(&self) -> Result<Link> {
        let mut link = lock(&self.link);
        if let Some((owner, link)) = &*link
            && owner.is_here()
        {
            return Ok(link.clone());
        }
        let _inside = runtime()?.enter();
        let new = self.dispatcher.lazy()?;
        if let Some(other) = link.replace((Owner::this(), new.clone())) {
            // The parent's: its runtime is not here to close it.
            std::mem::forget(other);
        }
        Ok(new)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("address", &self.dispatcher.address).finish_non_exhaustive()
    }
}
