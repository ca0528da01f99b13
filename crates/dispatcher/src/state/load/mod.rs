//! Load: what workers and consumers report, summed up per job. Nothing here decides anything, and nothing but dataset
//! profiles is persisted.
//!
//! - `job_load`: windows of what consumers take and what workers compute: the input of the scaling policy.
//! - `op_costs`: what each op of a job costs.
//! - `hosts`: the cores that the hosts of a job's consumers have to spare.
//! - `network_cost`: the CPU time that a byte over the network takes at each end.
//! - `dataset_profile`: what jobs on a dataset showed, for the next job on it.
//! - `caching`: what workers cache of each job, for people.

pub(super) mod caching;
pub(super) mod dataset_profile;
pub(super) mod hosts;
pub(super) mod job_load;
pub(super) mod network_cost;
pub(super) mod op_costs;
