//! Load: what workers and consumers report, summed up per job. Nothing here decides anything, and nothing but dataset
//! profiles is persisted.
//!
//! - `machine`: what was measured of each job; what it takes of heartbeats, and what the policies read.
//! - `job_load`: windows of what consumers take and what workers compute: the input of the scaling policy.
//! - `op_costs`: what each op of a job costs; `boundary_costs`: what follows from it for each placement boundary.
//! - `hosts`: the cores that the hosts of a job's consumers have to spare.
//! - `network_cost`: the CPU time that a byte over the network takes at each end.
//! - `dataset_profile`: what jobs on a dataset showed, for the next job on it.
//! - `caching`: what workers cache of each job, for people.

pub(super) mod boundary_costs;
mod caching;
pub(super) mod dataset_profile;
mod hosts;
pub(super) mod job_load;
pub(super) mod machine;
mod network_cost;
pub(super) mod op_costs;
