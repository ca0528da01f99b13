//! Which of several dispatchers leads, and for how long.
//!
//! - `election`: campaigns for the leader's key in etcd, and renews its lease.
//! - `term`: one term of a leader: until when it holds, by this process's own clock.
//! - `elected`: the life of an elected dispatcher: wait, lead, wait again.
//! - `leadership`: hands requests to the leader's parts, or returns an error with the leader's address.

pub(crate) mod elected;
pub(crate) mod election;
pub(crate) mod leadership;
pub(crate) mod term;
