//! A worker.

use forebay_proto::WorkerStatus;
use serde::Serialize;

/// A worker in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Worker<'a> {
    /// Its id.
    pub worker: &'a str,
    /// host:port.
    pub address: &'a str,
    /// "working", "idle", "slow", "leaving" or "lost".
    pub state: &'a str,
    /// Threads that compute.
    pub threads: u32,
    /// Splits that it holds.
    pub leases: u32,
    /// `null` from here to `rows_shared` if the worker computes for other tenants, too.
    pub splits_done: Option<u64>,
    /// Rows of these splits.
    pub rows_done: Option<u64>,
    /// Of these, rows that another job with the same samples had computed.
    pub rows_shared: Option<u64>,
    /// Milliseconds since its last message.
    pub silent_ms: u64,
    /// Whether it computes for one consumer alone, on that consumer's machine.
    pub local: bool,
    /// The kind of its machine; `fleet` if it reports none.
    pub kind: &'a str,
    /// The price of the machine for an hour; 0 if it reports none.
    pub price: f64,
    /// Whether it may be preempted.
    pub spot: bool,
    /// Why it writes nothing to its cache folder; empty if it writes, or has none.
    pub disk_off: &'a str,
    /// The jobs that began with other bits than it computes, so it gets none of their splits; 16 at most.
    pub differs: Vec<Differs<'a>>,
    /// Milliseconds since it was lost; `null` if it is not lost. Lost workers are listed for 10 minutes.
    pub lost_ms: Option<u64>,
    /// Why it was lost, in words; empty if it is not lost.
    pub lost: &'a str,
}

/// A job that a worker does not compute, in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Differs<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The ops, sources and functions that differ, with their versions.
    pub difference: &'a str,
}

impl<'a> Worker<'a> {
    /// Makes the JSON of a worker.
    pub fn of(worker: &'a WorkerStatus) -> Self {
        Self {
            worker: &worker.worker,
            address: &worker.address,
            state: &worker.state,
            threads: worker.threads,
            leases: worker.leases,
            splits_done: worker.splits_done,
            rows_done: worker.rows_done,
            rows_shared: worker.rows_shared,
            silent_ms: worker.silent_ms,
            local: worker.local,
            kind: &worker.kind,
            price: worker.price,
            spot: worker.spot,
            disk_off: &worker.disk_off,
            differs: worker.differs.iter().map(|d| Differs { job: &d.job, difference: &d.difference }).collect(),
            lost_ms: worker.lost_ms,
            lost: &worker.lost,
        }
    }
}
