//! Leases splits, computes them and serves their chunks.
//!
//! ```text
//! service    the worker as a process: bind, run, leave
//! session/   the Work stream with the dispatcher: leases in, room out
//! splits/    the leased splits, their jobs and their chunks
//! compute/   the threads, and the choice of their next work
//! serve/     chunks to consumers: sent, lent in shared memory, or over Arrow Flight
//! peers/     cached rows from and for other workers
//! blobs      arrays, functions and indexes from the dispatcher
//! stats      counters; view: a snapshot of them for metrics
//! options    the options of a worker, and its bounds
//! simulate   the same state machines for crates/sim, without threads and sockets
//! ```
//!
//! The way of a split: `session` receives a lease, `splits::lease_table` creates a `SplitBuffer` for it and hands it to
//! `compute::engine` once its job is prepared. `compute::pool` runs its morsels in the order of `compute::fair_queue`
//! and puts the chunks into the buffer. `serve` reads them with a `Cursor`, until the dispatcher reports them consumed.
//!
//! Invariants: W-1 a chunk's bytes depend on (job, epoch, consumer, ordinal, index) alone, so any of them may be
//! computed again; W-2 a consumer that reconnects finds the chunks that it has not acknowledged, or this worker
//! computes them again; W-3 the bytes and the number of splits that are held are bounded, for each split and for all
//! together. Not here: which splits a worker gets (`dispatcher`).

mod blobs;
mod compute;
mod lock;
mod options;
mod peers;
mod serve;
mod service;
mod session;
#[doc(hidden)]
pub mod simulate;
mod splits;
mod stats;
mod view;

pub use options::{Local, Options, WorkerType};
pub use service::{Throttle, Worker};
pub use view::{Figures, View};

/// The address of the dispatcher, and the credentials for it.
pub use forebay_proto::{Credentials, Remote, TlsFiles};

/// The most memory for data in a worker.
pub use forebay_data::MemoryBudget;
/// The interface to users' Python.
pub use forebay_exec::{Functions, NoFunctions, StorePrices};
