//! The fleet: which types of workers are wanted, what they cost, which jobs pay for them, and which workers ask each
//! other for cached rows.
//!
//! - `machine`: the workers' types and peers, and the cost of jobs.
//! - `mix`: how many workers of each type are wanted, where the dispatcher was told which types can be started.
//! - `worker_types`: the type and price that a worker reports.
//! - `job_cost`: what workers computed for a job, and what that cost.
//! - `idle_cost`: charges idle worker time to the jobs that are being read.
//! - `peers`: which workers ask each other for cached rows.

mod idle_cost;
mod job_cost;
pub(super) mod machine;
mod mix;
mod peers;
pub(super) mod worker_types;
