//! The fleet: the wanted types of workers, their cost, the jobs that pay for them, and the workers that are peers for
//! cached rows.
//!
//! - `machine`: the workers' types and peers, and the cost of jobs.
//! - `mix`: the wanted number of workers of each type, if the dispatcher has a list of types that can be started.
//! - `worker_types`: the type and price that a worker reports.
//! - `job_cost`: the work of workers for a job, and its cost.
//! - `idle_cost`: charges idle worker time to the jobs that have consumers.
//! - `peers`: the workers that request cached rows from each other.

mod idle_cost;
mod job_cost;
pub(super) mod machine;
mod mix;
mod peers;
pub(super) mod worker_types;
