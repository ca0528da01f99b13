//! Workers: the side of a lease that computes.
//!
//! - `worker`: one worker: its session, its credit, the leases that it holds.
//! - `messages`: hello, want, heartbeat, leave; what happens when a worker is lost.
//! - `local`: workers that compute for one consumer on its host.

mod local;
mod messages;
pub(in crate::state::leases) mod worker;
