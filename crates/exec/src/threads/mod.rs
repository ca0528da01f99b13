//! Threads that compute.
//!
//! - `row_pool`: threads that share the rows of the oldest morsel
//! - `cpu_time`: how much processor time a thread has used, as another thread sees it

pub(crate) mod cpu_time;
pub(crate) mod row_pool;
