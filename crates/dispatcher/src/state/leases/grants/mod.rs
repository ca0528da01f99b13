//! Grants of splits, and corrections after a grant. `Leases::grant` makes every lease, for each of its callers.
//!
//! - `grant`: the scheduler: priorities, weights, eligible workers.
//! - `share`: grants the same split of jobs with the same samples to one worker.
//! - `hints`: preferences, on which nothing depends: a worker with cached rows, a worker that computes it for other
//!   jobs.
//!
//! Corrections after a grant:
//! - `make_way`: takes the places of waiting splits for a consumer that has none; `fair_share` decides how many.
//! - `rebalance`: moves splits that wait to idle workers.
//! - `speculation`: grants a late split to a second worker, too.
//! - `stragglers`: decides which splits are late.
//! - `held_up`: bounds the splits of a job at a worker while its source hangs there.
//! - `trouble`, `poison`: find splits that end the workers that compute them.

mod fair_share;
pub(in crate::state) mod grant;
pub(in crate::state) mod held_up;
pub(in crate::state) mod hints;
mod make_way;
mod poison;
mod rebalance;
mod share;
mod speculation;
pub(in crate::state::leases) mod stragglers;
pub(in crate::state::leases) mod trouble;
