//! Assembles the roles into processes: configuration, logs, signals, and `up`.
//!
//! ```text
//! telemetry   logs to stderr                       roles      the dispatcher's and the worker's main
//! lifetime    signals, and the parent's end        up         a dispatcher and workers, as children
//! children    the processes of an `up`: started, awaited, counted and ended
//! dashboard   the HTTP API and the pages, in a dispatcher's process, beside an `up`, or by themselves
//! metrics     figures for monitoring and for scalers elsewhere
//! cache       the settings of a process's cache
//! shared_store  the store that machines share, as a cache tier
//! local       local workers, on cores that their trainer leaves idle
//! ```
//!
//! Invariants: a child never outlives its parent; stdout carries the announcement and nothing else; every wait has a
//! deadline. Not here: parsing arguments (`cli`).

mod cache;
mod children;
mod dashboard;
mod indexer;
mod lifetime;
mod local;
mod metrics;
mod open_files;
mod private;
mod roles;
mod shared_store;
mod telemetry;
mod up;

pub use crate::children::announce::Announcement;
pub use cache::{CacheConfig, CachePlaces, memory_budget, parse_bytes, parse_switch};
pub use dashboard::{RunningDashboard, dashboard_main};
pub use forebay_client::{Credentials, JobKey, LocalWorkerSlot, PORT, Remote, Service, TlsFiles};
pub use forebay_dashboard::{HTTP_PORT, HttpOptions};
pub use forebay_dispatcher::{
    BlobLimits, GrantFigures, LedgerReport, NewToken, Objective, Offer, Policy, Repaired, Retention, Role, Scaling,
    Timing, check_ledger, check_offers, check_price, check_worker_type, dump_ledger, measure_grants, new_token,
    repair_ledger,
};
pub use forebay_policy::provision::{Action, Reconciler, WorkerCounts};
pub use forebay_worker::{Functions, NoFunctions, StorePrices, WorkerType};
pub use lifetime::{StopSignal, exit_with_parent};
pub use local::{LocalRecipe, LocalThreads, LocalWorker, local_key, look_at_machine};
pub use metrics::{MountFigures, MountMetrics, MountView, PrefetchFigures};
pub use open_files::allow_files;
pub use private::keep_private;
pub use roles::{DispatcherConfig, Process, WorkerConfig, dispatcher_main, worker_main};
pub use telemetry::init_logs;
pub use up::{Up, UpOptions, Workers};
