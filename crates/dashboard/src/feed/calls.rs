//! The seam to a dispatcher: the calls that a dashboard makes for a caller.

use forebay_core::Result;
use forebay_proto::{GetScaleResponse, JobStatus, Token, WorkerStatus};

/// For whom a dashboard calls the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// For the dashboard itself, which samples history and events.
    Own,
    /// For a visitor with this token, or without one.
    Visitor(Option<Token>),
}

/// The calls to a dispatcher. Each has the rights of its caller and no others.
#[tonic::async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Lists the jobs that the caller may see; with a name, those of the name, in full.
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

    /// Returns the caller that may do as much as a visitor, so that both share answers: [`Caller::Own`] is the same as
    /// a visitor without a token where the dispatcher requires none.
    fn as_seen(&self, caller: &Caller) -> Caller {
        caller.clone()
    }
}
