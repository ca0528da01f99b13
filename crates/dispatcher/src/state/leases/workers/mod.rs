//! Workers: the side of a lease that computes.
//!
//! - `worker`: one worker: its session, its credit, the leases that it holds.
//! - `messages`: hello, want, heartbeat, leave; the loss of a worker.
//! - `local`: workers that compute for one consumer on its host.

mod local;
mod messages;
pub(in crate::state::leases) mod worker;
