//! Simulated jobs under the policies of [`forebay_policy`] and of other systems.
//!
//! - [`simulate`]: simulated jobs that share simulated workers, for users who want the price of a job, and for property
//!   tests of the real policies.
//! - [`baselines`]: Cachew's, Pecan's and Kubernetes' policies, as published.
//!
//! No service runs any of this. Invariants: no I/O, no clock; equal scenarios, seeds and policies give equal outcomes.
//!
//! ```
//! use forebay_policy_lab::baselines::policy;
//! use forebay_policy_lab::simulate::{Job, Pool, Scenario, simulate};
//!
//! // A step of the trainer takes 50 ms, and a batch takes a worker of one thread 230 ms.
//! let job = Job::new("resnet50", 0.05, 0.23, 20_000);
//! let outcome = simulate(&Scenario::new(vec![job], Pool::default(), 0), &policy("forebay")?)?;
//! let decided = outcome.jobs[0].changes.last().map(|change| change.to.workers);
//! assert_eq!(decided, Some(5));
//! # Ok::<(), forebay_core::Error>(())
//! ```

pub mod baselines;
pub mod simulate;
