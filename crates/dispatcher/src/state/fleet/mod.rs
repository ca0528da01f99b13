//! The fleet: which types of workers are wanted, what they cost, and which jobs pay for them.
//!
//! - `mix`: how many workers of each type are wanted, where the dispatcher was told which types can be started.
//! - `worker_types`: the type and price that a worker reports, and the cost of each job.
//! - `idle_cost`: charges idle worker time to the jobs that are being read.

pub(super) mod idle_cost;
pub(super) mod mix;
pub(super) mod worker_types;
