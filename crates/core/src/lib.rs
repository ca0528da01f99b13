//! The base of every other crate: error kinds, ids, and the seams for time and randomness.
//!
//! Reason: both pure crates (`plan`, `data`) and roles (`dispatcher`, `worker`, `client`) have to name these types.
//! Nothing in this crate spawns or waits; its only I/O makes files with the right modes ([`Modes`]), which `cache`,
//! `io` and `dispatcher` all need.
//! Invariant: everything that can reach a sample (ids, [`rng`]) is a pure function of its arguments.

mod bounded;
mod clock;
mod error;
mod ids;
mod modes;
mod panics;
pub mod rng;
mod trace;
mod waiting;

pub use clock::{Clock, Stopwatch, SystemClock, Ticks};
pub use error::{Error, ErrorKind, Fault, Result};
pub use ids::{ConsumerIndex, DatasetId, Epoch, FencingToken, Ordinal, SampleId, Seed, WorkerId};
pub use modes::Modes;
pub use panics::expect_panics;
pub use trace::{ChunkPlace, Keep, Recorded, SPANS_MAX, Span, Tracer, Track, short, to_chrome_json, tracer};
pub use waiting::{Waiting, WaitsFor, set_waiting, waiting};

/// The version that every process announces; two processes speak only when it is the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
