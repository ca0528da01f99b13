//! How sessions and requests talk to the actor: commands go in through a [`Handle`], events come out through a [`Port`].
//!
//! Both are bounded. Whoever sends commands faster than they are taken waits; whoever does not read its events is ended by the
//! actor, which never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{Error, Result};
use forebay_proto::{ConsumerEvent, GetScaleResponse, JobStatus, WorkerEvent, WorkerStatus, not_leader};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::records::JobRecord;
use crate::state::{Input, SessionId};
use crate::tenant::{Quota, Tenant};
use crate::view::LeaderFigures;

/// Commands that may wait; whoever sends more waits.
const COMMANDS_MAX: usize = 4096;
/// Events that may wait for a peer: more than a window of leases and all that can happen to them.
pub(crate) const PORT_EVENTS_MAX: usize = 16_384;

/// Where the events of a session go.
pub(crate) enum Port {
    Consumer(mpsc::Sender<Result<ConsumerEvent, Status>>),
    Worker(mpsc::Sender<Result<WorkerEvent, Status>>),
}

/// What is asked of the actor.
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
    /// Of a tenant, or all.
    ListJobs {
        tenant: Option<Arc<str>>,
        /// Of this name; empty is every.
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

/// Talks to the actor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    sessions: Arc<AtomicU64>,
}

impl Handle {
    /// Returns a handle and the other end, for the actor.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        (Self { commands, sessions: Arc::default() }, inbox)
    }

    /// Returns a session that never was.
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

    /// Records a job of its tenant, whose quota this is.
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

    /// Returns what jobs were opened as, once it is durable that there are no others.
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

/// Whoever hears it looks for the dispatcher again, or for another.
pub(crate) fn stopping() -> Error {
    not_leader("the dispatcher is stopping", "")
}
