//! What policies would do: jobs simulated under the policies of [`forebay_policy`] and of other systems.
//!
//! - [`simulate`]: imagined jobs that share imagined workers, for users who ask what a job would cost, and for property
//!   tests of the real policies.
//! - [`baselines`]: Cachew's, Pecan's and Kubernetes' policies, as published.
//!
//! No service runs any of this. Invariants: no I/O, no clock; equal scenarios, seeds and policies give equal outcomes.

pub mod baselines;
pub mod simulate;
