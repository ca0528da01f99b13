//! Leases: which worker computes which split of which consumer, and what happens when a lease goes wrong.
//!
//! The two sides of a lease:
//! - `consumer`: one consumer's splits: frontier, leases, the next split to grant. Arithmetic only.
//! - `consumers`: messages of consumers: attach, acknowledge, unreachable, heartbeat.
//! - `worker`: one worker: its session, its credit, the leases that it holds.
//! - `workers`: messages of workers: hello, want, heartbeat, leave; what happens when a worker is lost.
//! - `active`: the consumers that ticks and grants look at.
//!
//! Who gets the next split:
//! - `grant`: the scheduler: priorities, weights, eligible workers.
//! - `affinity`: prefers the worker whose caches hold the rows of a split.
//! - `sharing`: gives the same split of jobs with the same samples to one worker.
//!
//! Corrections after a grant:
//! - `rebalance`: moves splits that wait to idle workers.
//! - `speculation`: gives a late split to a second worker, too.
//! - `stragglers`: decides which splits are late.
//! - `held_up`: bounds what a job holds of a worker while its source hangs there.
//! - `poison`: finds splits that end the workers that compute them.
//! - `recover`: builds the state from a ledger after a restart.

pub(super) mod active;
pub(super) mod affinity;
pub(super) mod consumer;
pub(super) mod consumers;
pub(super) mod grant;
pub(super) mod held_up;
pub(super) mod poison;
pub(super) mod rebalance;
pub(super) mod recover;
pub(super) mod sharing;
pub(super) mod speculation;
pub(super) mod stragglers;
pub(super) mod worker;
pub(super) mod workers;
