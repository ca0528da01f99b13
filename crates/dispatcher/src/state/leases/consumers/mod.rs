//! Consumers: the side of a lease that reads.
//!
//! - `consumer`: one consumer's splits: frontier, leases, the next split to grant. Arithmetic only.
//! - `messages`: attach, acknowledge, heartbeat.
//! - `failed_fetch`: a consumer could not fetch a split.
//! - `avoided`: the workers that a consumer avoids because it could not fetch from them.
//! - `active`: the consumers that ticks and grants read.

mod active;
mod avoided;
pub(in crate::state) mod consumer;
mod failed_fetch;
pub(in crate::state) mod messages;
