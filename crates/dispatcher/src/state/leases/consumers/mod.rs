//! Consumers: the side of a lease that reads.
//!
//! - `consumer`: one consumer's splits: frontier, leases, the next split to grant. Arithmetic only.
//! - `messages`: attach, acknowledge, unreachable, heartbeat.
//! - `active`: the consumers that ticks and grants read.

mod active;
pub(in crate::state) mod consumer;
pub(in crate::state) mod messages;
