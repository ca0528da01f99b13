//! Calls of this process to its own dispatcher, without a connection: for the dashboard in the dispatcher's process.
//!
//! A call passes the same check of its token, the same quota and the same service as a call over the network. So a
//! caller gets the same answer either way.

use std::sync::Arc;

use forebay_core::Result;
use forebay_proto::{
    Dispatcher as _, GetScaleRequest, GetScaleResponse, JobStatus, ListJobsRequest, ListWorkersRequest, Token,
    WorkerStatus, to_error, with_token,
};
use tonic::{Request, Response, Status};

use crate::access::{Access, Principal};
use crate::service::Service;

/// The caller of a [`LocalCalls`].
#[derive(Debug, Clone, Copy)]
pub enum LocalCaller<'a> {
    /// This process, which may see everything.
    Process,
    /// A caller with this token, or without one.
    Bearer(Option<&'a Token>),
}

/// Calls to the dispatcher of this process. Cheap to clone.
#[derive(Clone)]
pub struct LocalCalls {
    service: Arc<Service>,
    access: Arc<Access>,
}

impl LocalCalls {
    pub(crate) fn new(service: Service, access: Arc<Access>) -> Self {
        Self { service: Arc::new(service), access }
    }

    /// Returns whether callers need a token.
    pub fn needs_token(&self) -> bool {
        self.access.asks()
    }

    /// Lists the jobs that the caller may see. With a name that is not empty, lists only jobs of that name, in full.
    ///
    /// # Errors
    /// PermissionDenied; Exhausted, if the tenant calls too often; Unavailable while this dispatcher does not lead.
    pub async fn jobs(&self, caller: LocalCaller<'_>, name: &str) -> Result<Vec<JobStatus>> {
        let call = self.call(caller, ListJobsRequest { name: name.to_owned() })?;
        answer(self.service.list_jobs(call).await).map(|answer| answer.jobs)
    }

    /// Lists the workers that the caller may see.
    ///
    /// # Errors
    /// As [`LocalCalls::jobs`].
    pub async fn workers(&self, caller: LocalCaller<'_>) -> Result<Vec<WorkerStatus>> {
        let call = self.call(caller, ListWorkersRequest {})?;
        answer(self.service.list_workers(call).await).map(|answer| answer.workers)
    }

    /// Returns how many workers all jobs want together.
    ///
    /// # Errors
    /// As [`LocalCalls::jobs`]; PermissionDenied unless the caller is an administrator.
    pub async fn scale(&self, caller: LocalCaller<'_>) -> Result<GetScaleResponse> {
        let call = self.call(caller, GetScaleRequest {})?;
        answer(self.service.get_scale(call).await)
    }

    fn call<T>(&self, caller: LocalCaller<'_>, message: T) -> Result<Request<T>> {
        let mut request = match caller {
            LocalCaller::Process => with_token(message, None),
            LocalCaller::Bearer(token) => with_token(message, token),
        };
        let principal = match caller {
            LocalCaller::Process => Arc::new(Principal::administrator()),
            LocalCaller::Bearer(_) => self.access.admit(request.metadata())?,
        };
        request.extensions_mut().insert(principal);
        Ok(request)
    }
}

fn answer<T>(answer: Result<Response<T>, Status>) -> Result<T> {
    answer.map(Response::into_inner).map_err(|status| to_error(&status, "this process"))
}
