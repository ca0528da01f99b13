//! Threads that compute.
//!
//! - `row_pool`: threads that share the rows of the oldest morsel
//! - `cpu_time`: the used processor time of a thread, readable by other threads
//! - `preemption`: waits of a thread, between two rows, for the turn of another job

pub(crate) mod cpu_time;
pub(crate) mod preemption;
pub(crate) mod row_pool;

/// The stack of a thread that computes. Expressions have at most 1,000 levels, each of which takes about 2 KiB; the
/// system reserves addresses, and gives memory only where a stack grows.
pub const STACK_BYTES: usize = 8 << 20;
