//! The time and price of jobs under a policy: the policies of [`scaling`](forebay_policy::scaling) themselves, over
//! simulated jobs.
//!
//! ```text
//! Scenario (jobs, pool, kinds, seed) + Policy ──simulate──▶ Outcome ──price──▶ money
//!                                             ──best──────▶ the fixed number of workers that is cheapest
//! ```
//!
//! Invariants: no clock and no I/O; time is simulated, from event to event; the same scenario, seed and policy give the
//! same outcome; every policy meets the same noise. See `README.md` beside this file for the model and its limits.

mod best;
mod event;
mod fleet;
mod job;
mod live;
mod outcome;
mod pecan;
mod pool;
mod run;
mod workers;

pub use best::{Best, best};
pub use job::{Host, JOBS_MAX, Job, Op, Scenario};
pub use outcome::{Change, JobOutcome, KindOutcome, Outcome};
pub use pecan::{Dollars, Row, pecan_table};
pub use pool::{Kind, Pool, WORKERS_MAX};
pub use run::{TIME_MAX_S, simulate};
