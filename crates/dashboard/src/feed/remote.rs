//! Calls to a dispatcher over the network; of several dispatchers, to the leader.
//!
//! Bounds: [`LINKS_MAX`] connections, one for each token; a further connection replaces the oldest one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{
    Credentials, DispatcherClient, GetScaleRequest, GetScaleResponse, JobStatus, Link, ListJobsRequest,
    ListWorkersRequest, Remote, Token, WorkerStatus, attempt, client, to_error,
};
use tonic::{Response, Status};

use super::calls::{Caller, Calls};

/// The most connections at a time.
const LINKS_MAX: usize = 32;

/// Calls to a service over the network.
pub struct RemoteCalls {
    /// The service, with the dashboard's own credentials.
    service: Remote,
    links: Mutex<VecDeque<(Option<Token>, Link)>>,
}

impl RemoteCalls {
    /// Calls this service. The token among its credentials is the dashboard's own: visitors do not get its rights.
    pub fn new(service: Remote) -> Self {
        Self { service, links: Mutex::default() }
    }

    fn links(&self) -> MutexGuard<'_, VecDeque<(Option<Token>, Link)>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self, caller: &Caller) -> Option<Token> {
        match caller {
            Caller::Own => self.service.credentials.token.clone(),
            Caller::Visitor(token) => token.clone(),
        }
    }

    async fn client(&self, token: &Option<Token>) -> Result<DispatcherClient<Link>> {
        if let Some((_, link)) = self.links().iter().find(|(of, _)| of == token) {
            return Ok(client(link.clone()));
        }
        let credentials = Credentials { tls: self.service.credentials.tls.clone(), token: token.clone() };
        let link = attempt(&Remote { address: self.service.address.clone(), credentials }).await?;
        let mut links = self.links();
        if links.len() >= LINKS_MAX {
            links.pop_front();
        }
        links.push_back((token.clone(), link.clone()));
        Ok(client(link))
    }

    /// Makes a call. If the dispatcher does not answer, the next call connects anew, because another one may lead.
    async fn call<T, F>(&self, caller: &Caller, call: impl FnOnce(DispatcherClient<Link>) -> F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let token = self.token(caller);
        let answer = call(self.client(&token).await?).await;
        let answer = answer.map(Response::into_inner).map_err(|status| to_error(&status, &self.service.address));
        if answer.as_ref().is_err_and(|e: &Error| e.kind() == ErrorKind::Unavailable) {
            self.links().retain(|(of, _)| *of != token);
        }
        answer
    }
}

#[tonic::async_trait]
impl Calls for RemoteCalls {
    async fn jobs(&self, caller: &Caller, name: &str) -> Result<Vec<JobStatus>> {
        let request = ListJobsRequest { name: name.to_owned() };
        Ok(self.call(caller, |mut c| async move { c.list_jobs(request).await }).await?.jobs)
    }

    async fn workers(&self, caller: &Caller) -> Result<Vec<WorkerStatus>> {
        Ok(self.call(caller, |mut c| async move { c.list_workers(ListWorkersRequest {}).await }).await?.workers)
    }

    async fn scale(&self, caller: &Caller) -> Result<GetScaleResponse> {
        self.call(caller, |mut c| async move { c.get_scale(GetScaleRequest {}).await }).await
    }

    fn as_seen(&self, caller: &Caller) -> Caller {
        Caller::Visitor(self.token(caller))
    }
}
