//! The seam to a dispatcher: the calls that a dashboard makes for a caller.

use forebay_core::Result;
use forebay_proto::{GetScaleResponse, JobStatus, Token, WorkerStatus};

/// The party for which a dashboard calls the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// For the dashboard itself, which samples history and events.
    Own,
    /// For a visitor with this token, or without one.
    Visitor(Option<Token>),
}

/// The calls to a dispatcher. Each call has only the rights of its caller.
#[tonic::async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Lists the jobs that the caller may see. With a name that is not empty, lists only jobs of that name, in full.
    ///
    /// # Errors
    /// PermissionDenied; Exhausted, if the tenant calls too often; Unavailable.
    async fn jobs(&self, caller: &Caller, name: &str) -> Result<Vec<JobStatus>>;

    /// Lists the workers that the caller may see.
    ///
    /// # Errors
    /// As [`Calls::jobs`].
    async fn workers(&self, caller: &Caller) -> Result<Vec<WorkerStatus>>;

    /// Returns how many workers all jobs want together.
    ///
    /// # Errors
    /// As [`Calls::jobs`]; PermissionDenied unless the caller is an administrator.
    async fn scale(&self, caller: &Caller) -> Result<GetScaleResponse>;

    /// Returns an equivalent caller, so that callers with the same rights share answers: where the dispatcher requires
    /// no token, a visitor without a token is the same as [`Caller::Own`].
    fn as_seen(&self, caller: &Caller) -> Caller {
        caller.clone()
    }
}
