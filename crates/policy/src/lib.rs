//! What the service decides, and why: pure functions of what was measured and of what was decided before.
//!
//! One folder for each policy, with a README that says which properties it must have, the problem in plain numbers, and the
//! method. Whoever decides runs them (scaling and fleet: the dispatcher; caching: each process that computes), and so does the
//! simulator ([`simulate`]), over imagined jobs: for those who ask what a job would cost, and for property tests. [`provision`] is
//! for whoever starts and ends workers, so that there are as many as were decided on.
//! Invariants: no I/O, no clock, no randomness: the same observations give the same decisions; every decision carries its
//! reason and the figures that it was taken on; no decision reaches a sample, so none can change what a job reads.
//!
//! ```
//! use forebay_policy::scaling::Policy;
//! use forebay_policy::simulate::{Job, Pool, Scenario, simulate};
//!
//! // A step of the trainer takes 50 ms, and a batch takes a worker of one thread 230 ms.
//! let job = Job::new("resnet50", 0.05, 0.23, 20_000);
//! let outcome = simulate(&Scenario::new(vec![job], Pool::default(), 0), Policy::Forebay)?;
//! let decided = outcome.jobs[0].changes.last().map(|change| change.to.workers);
//! assert_eq!(decided, Some(5));
//! # Ok::<(), forebay_core::Error>(())
//! ```

pub mod caching;
pub mod fleet;
pub mod placement;
pub mod provision;
pub mod scaling;
pub mod simulate;
