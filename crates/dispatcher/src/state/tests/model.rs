//! The jobs of the model, and its workers and consumers.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::{Error, Result};
use forebay_plan::BitVersions;
use forebay_proto::{ConsumerHeartbeat, JobKey, Lease};

use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::{Attachment, SessionId};

pub(super) const WORKERS: usize = 3;
/// Splits in an epoch of each consumer, and epochs: shared, endless, empty, and endlessly many epochs.
pub(super) const JOBS: [(&[Option<u64>], u64); 4] =
    [(&[Some(3), Some(2)], 3), (&[None], 1), (&[Some(0)], 2), (&[Some(1)], 0)];
/// The consumer of a job without end.
pub(super) const ENDLESS: usize = 2;

pub(super) fn splits(record: &JobRecord) -> Result<Vec<Option<u64>>> {
    Ok(JOBS[record.seed as usize].0.to_vec())
}

/// In a world with tenants: the tenant of each job, the tenant that each worker serves, and the quota of workers.
pub(super) const TENANTS: [&str; 5] = ["a", "a", "b", "b", "a"];
/// A job with the samples of this one may be added.
pub(super) const TWIN_OF: usize = 1;
/// The consumer of that job.
pub(super) const TWIN: usize = 5;
/// The worker that may be the local one of the first consumer, whose tenant it serves.
pub(super) const LOCAL: usize = 1;
/// The key that it and consumers show.
pub(super) const LOCAL_KEY: [u8; 16] = [7; 16];
/// The attachment of a consumer without a tenant, at the start, with a window of one split.
pub(super) fn attachment(session: SessionId, consumer: ConsumerKey) -> Attachment {
    let local_key = JobKey::from_bytes(&LOCAL_KEY);
    let bits = BitVersions::own();
    Attachment { session, consumer, window: 1, local_key, bits, ..Attachment::default() }
}

pub(super) const SERVES: [Option<&str>; WORKERS] = [None, Some("a"), Some("b")];
pub(super) const WORKERS_MAX: u32 = 1;

pub(super) fn record(job: usize) -> JobRecord {
    JobRecord {
        id: 0,
        name: format!("job {job}"),
        dataset: String::new(),
        graph: String::new(),
        seed: job as u64,
        epochs: JOBS[job].1,
        consumers: JOBS[job].0.len() as u32,
        extent: String::new(),
        sizing: String::new(),
        index: String::new(),
        even: false,
        coordinated: false,
        weight: 1,
        priority: 0,
        cancelled: false,
        read_before: 0,
        tenant: String::new(),
        key: JobKey::default(),
        sources: Vec::new(),
        ending: forebay_plan::Ending::Apart,
        ends: Vec::new(),
        bits: BTreeMap::new(),
    }
}

#[derive(Default)]
pub(super) struct WorkerModel {
    pub(super) session: Option<SessionId>,
    pub(super) held: BTreeMap<u64, Lease>,
    /// The skipped samples that it was sent last.
    pub(super) skipped: BTreeSet<(Position, u64)>,
}

pub(super) struct ConsumerModel {
    pub(super) key: ConsumerKey,
    pub(super) session: Option<SessionId>,
    pub(super) position: Position,
    pub(super) assigned: BTreeMap<Position, u64>,
    pub(super) consumed: Vec<Position>,
    /// The samples that it left out, and those whose record was confirmed to it.
    pub(super) skipped: Vec<(Position, u64)>,
    pub(super) recorded: BTreeSet<(Position, u64)>,
    pub(super) refused: Option<Error>,
    /// The floors that it got where epochs end together, and the missing consumers that were named to it.
    pub(super) floors: Vec<forebay_proto::Floor>,
    pub(super) missing: Vec<(u32, Option<u64>)>,
}

/// The heartbeat for half a second of a consumer with so much step time; it waited for the rest, and a batch has one
/// row.
pub(super) fn half_second_read(step_ms: u64, batches: u64) -> ConsumerHeartbeat {
    ConsumerHeartbeat { batch_wait_ms: 500 - step_ms, step_ms, batches, rows: batches, ..ConsumerHeartbeat::default() }
}
