//! Leases: which worker computes which split of which consumer of which job, and the corrections when a lease fails.
//! This machine holds all that is durable (except dataset profiles), and no other one can request a durable write.
//!
//! - `machine`: its fields, and the parts that the others read, as `views`.
//! - `notice`: its notices to the others: a consumer or a worker is gone, an epoch was read, a job was removed.
//! - `durable`: updates that must be durable before any message about them is sent.
//! - `job`: a job with its consumers; `jobs`: the begin and end of jobs, their tenants, their records in the ledger.
//! - `consumers`, `workers`: the two sides of a lease, and their messages.
//! - `grants`: grants of splits, and corrections after a grant.
//! - `events`: the messages about a lease.
//! - `tick`: notices silent processes.
//! - `recover`: builds the machine from a ledger after a restart; `check`: its invariants; `status`: its display.

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
