//! How sessions and requests talk to the actor: commands go in through a [`Handle`], events come out through a
//! [`Port`].
//!
//! Both are bounded. A sender of commands waits while the actor is behind. The actor never waits: it ends a session
//! that does not read its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{Error, Result};
use forebay_proto::{ConsumerEvent, GetScaleResponse, JobStatus, WorkerEvent, WorkerStatus, not_leader};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::figures::LeaderFigures;
use crate::records::JobRecord;
use crate::state::{Input, SessionId};
use crate::tenant::{Quota, Tenant};

/// Commands that may be queued; further senders wait.
const COMMANDS_MAX: usize = 4096;
/// Events that may be queued for a peer: more than a window of leases and all that can happen to them.
pub(crate) const PORT_EVENTS_MAX: usize = 16_384;

/// Where the events of a session go.
pub(crate) enum Port {
    Consumer(mpsc::Sender<Result<ConsumerEvent, Status>>),
    Worker(mpsc::Sender<Result<WorkerEvent, Status>>),
}

/// A request to the actor.
pub(crate) enum Command {
    /// A session begins with its first message. `ended` is cancelled when the actor ends it.
    Begin {
        session: SessionId,
        port: Port,
        ended: CancellationToken,
        input: Input,
    },
    Input(Input),
    Find {
        tenant: Arc<str>,
        name: String,
        reply: oneshot::Sender<Option<Arc<JobRecord>>>,
    },
    Create {
        record: Box<JobRecord>,
        splits: Vec<Option<u64>>,
        quota: Quota,
        reply: oneshot::Sender<Result<Arc<JobRecord>>>,
    },
    Cancel {
        tenant: Arc<str>,
        name: String,
        reply: oneshot::Sender<Result<()>>,
    },
    Forget {
        tenant: Arc<str>,
        name: String,
        reply: oneshot::Sender<Result<()>>,
    },
    Records {
        reply: oneshot::Sender<Vec<Arc<JobRecord>>>,
    },
    /// For a tenant, or for all tenants.
    ListJobs {
        tenant: Option<Arc<str>>,
        /// Only the job of this name; empty for all.
        name: String,
        reply: oneshot::Sender<Vec<JobStatus>>,
    },
    GetScale {
        reply: oneshot::Sender<GetScaleResponse>,
    },
    Figures {
        reply: oneshot::Sender<LeaderFigures>,
    },
    ListWorkers {
        tenant: Option<Arc<str>>,
        reply: oneshot::Sender<Vec<WorkerStatus>>,
    },
}

/// Sends commands to the actor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    sessions: Arc<AtomicU64>,
}

impl Handle {
    /// Returns a handle, and the actor's end of it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        (Self { commands, sessions: Arc::default() }, inbox)
    }

    /// Returns a new session number.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn send(&self, command: Command) -> Result<()> {
        self.commands.send(command).await.map_err(|_| stopping())
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.map_err(|_| stopping())
    }

    pub(crate) async fn find(&self, tenant: &Tenant, name: &str) -> Result<Option<Arc<JobRecord>>> {
        self.ask(|reply| Command::Find { tenant: tenant.name.clone(), name: name.to_owned(), reply }).await
    }

    /// Records a job of a tenant with this quota.
    pub(crate) async fn create(
        &self,
        record: JobRecord,
        splits: Vec<Option<u64>>,
        quota: Quota,
    ) -> Result<Arc<JobRecord>> {
        self.ask(|reply| Command::Create { record: Box::new(record), splits, quota, reply }).await?
    }

    pub(crate) async fn cancel(&self, tenant: Arc<str>, name: String) -> Result<()> {
        self.ask(|reply| Command::Cancel { tenant, name, reply }).await?
    }

    pub(crate) async fn forget(&self, tenant: Arc<str>, name: String) -> Result<()> {
        self.ask(|reply| Command::Forget { tenant, name, reply }).await?
    }

    /// Returns the records of all jobs, once it is durable that there are no others.
    pub(crate) async fn records(&self) -> Result<Vec<Arc<JobRecord>>> {
        self.ask(|reply| Command::Records { reply }).await
    }

    pub(crate) async fn list_jobs(&self, tenant: Option<Arc<str>>, name: String) -> Result<Vec<JobStatus>> {
        self.ask(|reply| Command::ListJobs { tenant, name, reply }).await
    }

    pub(crate) async fn wanted(&self) -> Result<GetScaleResponse> {
        self.ask(|reply| Command::GetScale { reply }).await
    }

    pub(crate) async fn figures(&self) -> Result<LeaderFigures> {
        self.ask(|reply| Command::Figures { reply }).await
    }

    pub(crate) async fn list_workers(&self, tenant: Option<Arc<str>>) -> Result<Vec<WorkerStatus>> {
        self.ask(|reply| Command::ListWorkers { tenant, reply }).await
    }
}

/// A peer that gets this error looks for the dispatcher again, or for another one.
pub(crate) fn stopping() -> Error {
    not_leader("the dispatcher is stopping", "")
}
