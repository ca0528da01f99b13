//! The ground that every other crate stands on: error kinds, ids, and the seams for time and randomness.
//!
//! Why here: these are the only things that a pure crate (`plan`, `data`) and a role (`dispatcher`, `worker`,
//! `client`) both have to name. Nothing in this crate spawns or waits; it does no I/O but to make files with the right modes
//! ([`Modes`]), which `cache`, `io` and `dispatcher` do alike.
//! Invariant: whatever can reach a sample (ids, [`rng`]) is a pure function of its arguments.

mod bounded;
mod clock;
mod error;
mod ids;
mod modes;
pub mod rng;

pub use clock::{Clock, Stopwatch, SystemClock, Ticks};
pub use error::{Error, ErrorKind, Fault, Result};
pub use ids::{ConsumerIndex, DatasetId, Epoch, FencingToken, Ordinal, SampleId, Seed, WorkerId};
pub use modes::Modes;

/// The version that every process announces; two processes speak only when it is the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
