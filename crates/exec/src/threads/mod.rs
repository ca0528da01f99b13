//! Threads that compute.
//!
//! - `row_pool`: threads that share the rows of the oldest morsel
//! - `cpu_time`: the used processor time of a thread, readable by other threads
//! - `preemption`: waits of a thread, between two rows, for the turn of another job

pub(crate) mod cpu_time;
pub(crate) mod preemption;
pub(crate) mod row_pool;
