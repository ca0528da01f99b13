//! The inputs of the state: the messages of sessions, and the clock.

use std::sync::Arc;

use forebay_core::{Error, WorkerId};
use forebay_plan::BitVersions;
use forebay_proto::{ConsumerHeartbeat, JobKey, Lease, LostSample, Steps, WorkerHeartbeat};

use super::fleet::worker_types::WorkerType;
use crate::records::{ConsumerKey, Position};
use crate::tenant::Tenant;

/// One connection of a consumer or a worker. A number is never used twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// A process attaches to a consumer: the first message of its session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachment {
    pub(crate) session: SessionId,
    pub(crate) tenant: Tenant,
    pub(crate) consumer: ConsumerKey,
    pub(crate) position: Position,
    /// Whether the position comes from a saved state, or from the same process before its connection broke.
    pub(crate) resume: bool,
    /// How many splits may be assigned and not yet acknowledged.
    pub(crate) window: u32,
    /// The samples that a saved state lists as left out.
    pub(crate) skipped: Vec<LostSample>,
    /// The key that the consumer's local workers must show; the default if it has none.
    pub(crate) local_key: JobKey,
    /// The bits that its process computes.
    pub(crate) bits: BitVersions,
}

/// A worker comes: the first message of its session.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) session: SessionId,
    pub(crate) worker: WorkerId,
    pub(crate) address: Arc<str>,
    pub(crate) threads: u32,
    pub(crate) held: Vec<Lease>,
    /// The tenant that it computes for; `None` for all tenants.
    pub(crate) serves: Option<Arc<str>>,
    /// The folder where it caches rows; empty if it has none.
    pub(crate) place: Arc<str>,
    /// Of a local worker: the one consumer that it computes for.
    pub(crate) only: Option<ConsumerKey>,
    pub(crate) local_key: JobKey,
    pub(crate) worker_type: WorkerType,
    /// The bits that it computes.
    pub(crate) bits: BitVersions,
}

/// An input of the dispatcher.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Attach(Attachment),
    Ack { session: SessionId, position: Position },
    Unreachable { session: SessionId, position: Position, token: u64, error: Error },
    Steps { session: SessionId, said: Steps },
    Skipped { session: SessionId, number: u64, samples: Vec<LostSample> },
    EndEpoch { session: SessionId, epoch: u64 },
    ConsumerHeartbeat { session: SessionId, said: ConsumerHeartbeat },
    ConsumerGone { session: SessionId },
    Hello(Arrival),
    Threads { session: SessionId, threads: u32 },
    Want { session: SessionId, splits: u32 },
    WorkerHeartbeat { session: SessionId, said: WorkerHeartbeat },
    Leaving { session: SessionId },
    WorkerGone { session: SessionId },
    Tick,
}
