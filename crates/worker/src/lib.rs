//! Leases splits, runs them and serves their chunks.
//!
//! ```text
//! session   the Work stream to the dispatcher: leases in, room out; reconnects for ever
//! talk      what is said in it, without I/O
//! jobs      a definition becomes an executable, once
//! shelf     every split that is held, and what each is worth of memory
//! held      one split: its chunks, in order, until its consumer has consumed them
//! pool      threads that compute, for readers in turn (turns)
//! window    what jobs with the same samples share
//! encode    a chunk becomes Flight messages
//! reading   a reader's place in a split
//! sharing   who of these computes a chunk, without waiting
//! lender    lends the memory of chunks to readers on this machine
//! loans     what they have on loan, without I/O
//! transfer  serves the chunks to readers of ours
//! blocks    shows other workers what is kept here
//! peers     other workers, as a store of what they keep; peer: one of them; membership: who they are
//! flight    serves the chunks to any Arrow client
//! accept    tells the two apart, on one port
//! cursor    where one reader is, and what follows from what it finds, without I/O
//! view      what it does, in figures
//! engine    the seam between what is held and what computes it
//! ```
//!
//! Invariants: W-1 a chunk's bytes depend on (job, epoch, consumer, ordinal, index) alone, so that any of them may be
//! computed again; W-2 a consumer that comes back finds the chunks it has not acknowledged, or they are computed again;
//! W-3 what a split holds is bounded, and so is what they all hold. Not here: which splits a worker gets (`dispatcher`).

mod accept;
mod blobs;
mod blocks;
mod busy;
mod columns;
mod compute;
mod cursor;
mod encode;
mod engine;
mod flight;
mod held;
mod jobs;
mod lender;
mod loans;
mod lock;
mod membership;
mod ops;
mod options;
mod peer;
mod peers;
mod pool;
mod reading;
mod service;
mod session;
mod sharing;
mod shelf;
#[doc(hidden)]
pub mod simulate;
mod spent;
mod talk;
mod transfer;
mod turns;
mod view;
mod window;

pub use options::{Local, MachineKind, Options};
pub use service::{Throttle, Worker};
pub use view::{Figures, View};

/// Where its dispatcher is, and the certificates of both.
pub use forebay_proto::{Credentials, Remote, TlsFiles};

/// How much memory data may take in a worker.
pub use forebay_data::MemoryBudget;
/// What a worker runs users' Python with.
pub use forebay_exec::{Functions, NoFunctions, StorePrices};
