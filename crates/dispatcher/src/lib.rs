//! Grants splits, keeps the ledger, detects loss.
//!
//! ```text
//! sessions (service) --commands--> actor: owns its core --batches--> committer: owns the ledger, a file or in etcd
//!  through leadership <--events---         (pure)        <--done----
//! ```
//!
//! With a ledger in a file, a dispatcher leads for as long as it lives. With a ledger in etcd there are several
//! dispatchers, of which one is elected (`leader`).
//!
//! - `actor`: the task that owns the core, with `core`, the dispatcher without I/O, `outbox`, the order of messages and
//!   durable writes, and `handle`, by which sessions and requests reach it; `recovery`: builds all from a ledger.
//! - `state`: the core's decisions; `records`: the persisted data.
//! - `service`: the gRPC service; `access`: tokens and roles; `tenant`: quotas; `jobs`, `indexing`: opening a job.
//! - `store`: the ledger and the blobs; `gc`: garbage collection of blobs; `leader`: election and terms.
//! - `dispatcher`, `options`, `view`: the component, its settings, its figures; `local_calls`: calls of its own
//!   process; `measure`, `simulate`: for the benchmark and the simulation.
//!
//! Why here: the only place that sees every worker and every consumer of a job. It never sees a sample.
//! Invariants: SP-1 to SP-10 (see `state`); a lease is durable before any process is sent it; every queue is bounded.
//! Not here: the policy that decides how many workers there should be (`policy`; it is run here), the provisioner that
//! starts them (`server`), and the computing of splits (the worker).

mod access;
mod actor;
mod dispatcher;
mod figures;
mod gc;
mod indexing;
mod jobs;
mod leader;
mod local_calls;
mod measure;
mod options;
mod records;
mod recovery;
mod service;
#[doc(hidden)]
pub mod simulate;
mod state;
mod store;
mod tenant;
mod view;

pub use access::{NewToken, Role, new_token};
pub use dispatcher::Dispatcher;
pub use figures::{Figures, LeaderFigures, LedgerFigures, ScaleFigures};
pub use forebay_policy::fleet::{Offer, check as check_offers};
pub use forebay_policy::placement::Objective;
pub use forebay_policy::scaling::Policy;
pub use indexing::{FileIndexer, Indexed, Indexer, IndexingFigures};

/// The files that an [`Indexer`] may read.
pub use forebay_io::Allowed;
pub use forebay_plan::Source;

pub use local_calls::{LocalCaller, LocalCalls};
pub use measure::{GrantFigures, measure_grants};
pub use options::{Options, Retention, Scaling, Timing};
pub use state::{Counts, StateFigures, check_price, check_worker_type};
pub use store::{BlobLimits, LedgerReport, Repaired, check_ledger, dump_ledger, repair_ledger};
pub use view::View;

/// The files of its certificates.
pub use forebay_proto::TlsFiles;

/// Reads a job's record as a starting dispatcher does. For the fuzzer only.
///
/// # Errors
/// Data when the bytes are no record.
#[doc(hidden)]
pub fn check_job_record(json: &[u8]) -> forebay_core::Result<()> {
    let record: records::JobRecord = serde_json::from_slice(json)
        .map_err(|e| forebay_core::Error::data(format!("a job's record cannot be read: {e}")))?;
    jobs::splits(&record).map(drop)
}
