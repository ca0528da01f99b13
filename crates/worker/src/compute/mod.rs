//! The threads that compute splits.
//!
//! - `engine`: the interface that the lease table uses, so that the simulation can compute in virtual time
//! - `pool`: the threads, and their waits
//! - `fair_queue`: chooses the consumer whose work is next
//! - `task`: the entries of that queue, and the tasks that threads take from it
//! - `turn`: lets others compute between two chunks of a source block
//! - `watchdog`: finds threads that hang, and the jobs that may still have one
//! - `run`: computes one morsel, or one source block
//! - `spent`: the time and the bytes of each job, for the heartbeat
//! - `op_metrics`: the cost of each op, for the heartbeat

pub(crate) mod engine;
pub(crate) mod fair_queue;
pub(crate) mod op_metrics;
pub(crate) mod pool;
pub(crate) mod run;
pub(crate) mod spent;
pub(crate) mod task;
pub(crate) mod turn;
pub(crate) mod watchdog;
