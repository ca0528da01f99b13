//! Leases: which worker computes which split of which consumer of which job, and what happens when a lease goes wrong.
//! This machine holds all that is durable (but dataset profiles), and no other one can ask for a durable write.
//!
//! - `machine`: its fields, and what the others read of it, as `views`.
//! - `notice`: what it tells the others: a consumer or a worker is gone, an epoch was read, a job was removed.
//! - `durable`: updates that must be durable before anyone hears what follows them.
//! - `job`: a job with its consumers; `jobs`: how jobs begin and end, whose they are, what the ledger keeps of them.
//! - `consumers`, `workers`: the two sides of a lease, and their messages.
//! - `grants`: who gets the next split, and corrections after a grant.
//! - `events`: the messages about a lease.
//! - `tick`: notices who is silent.
//! - `recover`: builds the machine from a ledger after a restart; `check`: its invariants; `status`: what people see.

pub(super) mod check;
pub(super) mod consumers;
pub(super) mod durable;
mod events;
pub(super) mod grants;
mod job;
mod jobs;
pub(super) mod machine;
pub(super) mod notice;
mod recover;
pub(super) mod status;
#[cfg(test)]
mod testing;
mod tick;
pub(super) mod views;
mod workers;
