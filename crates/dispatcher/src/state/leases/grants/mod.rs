//! Who gets the next split, and corrections after a grant. `Leases::grant` makes every lease, for each of its callers.
//!
//! - `grant`: the scheduler: priorities, weights, eligible workers.
//! - `share`: gives the same split of jobs with the same samples to one worker.
//! - `hints`: preferences, on which nothing depends: whose caches have the rows, who computes the split for others.
//!
//! Corrections after a grant:
//! - `rebalance`: moves splits that wait to idle workers.
//! - `speculation`: gives a late split to a second worker, too.
//! - `stragglers`: decides which splits are late.
//! - `held_up`: bounds what a job holds of a worker while its source hangs there.
//! - `trouble`, `poison`: find splits that end the workers that compute them.

pub(in crate::state) mod grant;
pub(in crate::state) mod held_up;
pub(in crate::state) mod hints;
mod poison;
mod rebalance;
mod share;
mod speculation;
pub(in crate::state::leases) mod stragglers;
pub(in crate::state::leases) mod trouble;
