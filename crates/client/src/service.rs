//! A dispatcher, as a user sees it.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{ErrorKind, Result};
use forebay_plan::BlobId;
use forebay_proto::{
    CancelJobRequest, DispatcherClient, JobStatus, ListJobsRequest, ListWorkersRequest, WorkerStatus, client, endpoint,
    reach, to_error, unanswered,
};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::job::{JobSpec, OpenedJob, open};
use crate::lock::lock;
use crate::runtime::{Owner, runtime, wait};

/// The pause before a call that was not answered is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// A service: the address of a dispatcher that has answered. Cheap to keep; works on both sides of a fork.
pub struct Service {
    address: String,
    deadline: Duration,
    channel: Mutex<Option<(Owner, Channel)>>,
}

impl Service {
    /// Connects to `forebay://host:port` (or `host:port`), and waits up to `deadline` for it to answer. Every later call
    /// waits as long for a dispatcher that is restarting.
    ///
    /// # Errors
    /// Invalid when it is no address; Unavailable when nobody answers in time; Version when it is another version; what
    /// `poll` returns.
    pub fn connect(address: &str, deadline: Duration, poll: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let to = address.to_owned();
        wait(async move { reach(&to, deadline).await.map(drop) }, poll)?;
        Ok(Self { address: address.to_owned(), deadline, channel: Mutex::new(None) })
    }

    /// Returns the address as it was given.
    pub fn address(&self) -> &str {
        &self.address
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

    /// Lists the jobs.
    ///
    /// # Errors
    /// Unavailable.
    pub fn jobs(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<JobStatus>> {
        Ok(self.call(async |mut c| c.list_jobs(ListJobsRequest {}).await, poll)?.jobs)
    }

    /// Lists the workers.
    ///
    /// # Errors
    /// Unavailable.
    pub fn workers(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<WorkerStatus>> {
        Ok(self.call(async |mut c| c.list_workers(ListWorkersRequest {}).await, poll)?.workers)
    }

    /// Ends a job for good; its readers get a Closed error.
    ///
    /// # Errors
    /// NotFound when there is none of that name; Unavailable.
    pub fn cancel(&self, name: &str, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let name = name.to_owned();
        self.call(
            move |mut c| {
                let name = name.clone();
                async move { c.cancel_job(CancelJobRequest { name }).await }
            },
            poll,
        )
        .map(drop)
    }

    /// Makes a call, again and again until the deadline while nobody answers.
    pub(crate) fn call<T, F>(
        &self,
        call: impl Fn(DispatcherClient<Channel>) -> F + Send + 'static,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<Response<T>, Status>> + Send + 'static,
    {
        let (channel, address, deadline) = (self.channel()?, self.address.clone(), self.deadline);
        let patient = async move {
            let end = tokio::time::Instant::now() + deadline;
            loop {
                let answer = tokio::time::timeout_at(end, call(client(channel.clone()))).await;
                let error = match answer {
                    Ok(Ok(response)) => return Ok(response.into_inner()),
                    Ok(Err(status)) => to_error(&status, &address),
                    Err(_) => return Err(unanswered(&address, deadline)),
                };
                if error.kind() != ErrorKind::Unavailable || tokio::time::Instant::now() + PAUSE >= end {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        wait(patient, poll)
    }

    /// Returns the connection of this process.
    pub(crate) fn channel(&self) -> Result<Channel> {
        let mut channel = lock(&self.channel);
        if let Some((owner, channel)) = &*channel
            && owner.is_here()
        {
            return Ok(channel.clone());
        }
        let _inside = runtime()?.enter();
        let new = endpoint(&self.address)?.connect_lazy();
        if let Some(other) = channel.replace((Owner::this(), new.clone())) {
            // The parent's: its runtime is not here to close it.
            std::mem::forget(other);
        }
        Ok(new)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}
