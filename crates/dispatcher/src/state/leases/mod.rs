//! Leases: which worker computes which split of which consumer of which job, and what happens when a lease goes wrong.
//! This machine holds all that is durable (but dataset profiles), and no other one can ask for a durable write.
//!
//! - `machine`: its fields, and what the others read of it, as `views`.
//! - `notice`: what it tells the others: a consumer or a worker is gone, an epoch was read, a job was removed.
//! - `durable`: updates that must be durable before anyone hears what follows them.
//! - `job`: a job with its consumers; `jobs`: how jobs begin and end, whose they are, what the ledger keeps of them.
//!
//! The two sides of a lease:
//! - `consumer`: one consumer's splits: frontier, leases, the next split to grant. Arithmetic only.
//! - `consumers`: messages of consumers: attach, acknowledge, unreachable, heartbeat.
//! - `worker`: one worker: its session, its credit, the leases that it holds.
//! - `workers`: messages of workers: hello, want, heartbeat, leave; what happens when a worker is lost.
//! - `local_workers`: workers that compute for one consumer on its host.
//! - `active`: the consumers that ticks and grants look at.
//!
//! Who gets the next split:
//! - `grant`: the scheduler: priorities, weights, eligible workers. All leases are made by `Leases::grant`.
//! - `share`: gives the same split of jobs with the same samples to one worker.
//! - `hints`: preferences, on which nothing depends: whose caches have the rows, who computes the split for others.
//!
//! Corrections after a grant:
//! - `rebalance`: moves splits that wait to idle workers.
//! - `speculation`: gives a late split to a second worker, too.
//! - `stragglers`: decides which splits are late.
//! - `held_up`: bounds what a job holds of a worker while its source hangs there.
//! - `trouble`, `poison`: find splits that end the workers that compute them.
//! - `tick`: notices who is silent.
//!
//! - `recover`: builds the machine from a ledger after a restart; `check`: its invariants; `status`: what people see.

mod active;
pub(super) mod check;
pub(super) mod consumer;
pub(super) mod consumers;
pub(super) mod durable;
mod events;
pub(super) mod grant;
pub(super) mod held_up;
pub(super) mod hints;
mod job;
pub(super) mod jobs;
mod local_workers;
pub(super) mod machine;
pub(super) mod notice;
mod poison;
mod rebalance;
mod recover;
mod share;
mod speculation;
pub(super) mod status;
mod stragglers;
#[cfg(test)]
mod testing;
mod tick;
mod trouble;
pub(super) mod views;
mod worker;
mod workers;
