//! Load: the reports of workers and consumers, summed up per job. Nothing here decides anything, and nothing but
//! dataset profiles is persisted.
//!
//! - `machine`: the measurements of each job; its input from heartbeats, and its output to the policies.
//! - `job_load`: windows of rows that consumers take and workers compute: the input of the scaling policy.
//! - `op_costs`: the cost of each op of a job; `boundary_costs`: the resulting cost of each placement boundary.
//! - `hosts`: the cores that the hosts of a job's consumers have to spare.
//! - `network_cost`: the CPU time that a byte over the network takes at each end.
//! - `dataset_profile`: figures of the jobs on a dataset, for the next job on it.
//! - `consumer_reports`: the sums of consumers' reports, in all and in the last minute, for display.
//! - `caching`: the cache of each worker for a job, for display.

pub(super) mod boundary_costs;
mod caching;
mod consumer_reports;
pub(super) mod dataset_profile;
mod hosts;
pub(super) mod job_load;
pub(super) mod machine;
mod network_cost;
pub(super) mod op_costs;
