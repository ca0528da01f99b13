//! The decisions of the service, each with its reason: pure functions of measurements and of earlier decisions.
//!
//! One folder for each policy, with a README that states its properties, the problem in plain numbers and the method.
//! The dispatcher runs scaling and fleet; each process that computes runs caching; the simulator of crate `policy-lab`
//! runs all of them over simulated jobs. [`provision`] serves the hosts that start and end workers: it brings their
//! number to the wanted number.
//! Invariants: no I/O, no clock, no randomness: the same observations give the same decisions; every decision carries
//! its reason and the figures behind it; no decision reaches a sample, so none can change the data that a job reads.
//!
//! ```
//! use forebay_policy::scaling::{Claim, share};
//!
//! // Two jobs want six workers each, and there are eight; the second job counts three times as much.
//! let light = Claim { priority: 0, wanted: 6, weight: 1.0 };
//! let heavy = Claim { weight: 3.0, ..light };
//! assert_eq!(share(8, &[light, heavy]), [2, 6]);
//! ```

pub mod caching;
pub mod fleet;
pub mod placement;
pub mod provision;
pub mod scaling;
