//! Asks the dispatcher on behalf of callers, and keeps answers, history and events.
//!
//! - `calls`: the seam to the dispatcher; `remote`: over the network. (`server` has the calls of its own process.)
//! - `answers`: keeps recent answers, so that any number of open pages makes one call.
//! - `history`: rates of jobs over time; `events`: changes between two snapshots. Both are pure and bounded.
//! - `sampler`: the task that takes a snapshot every two seconds; `store`: the state that all of these share.

pub(crate) mod answers;
pub(crate) mod calls;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod remote;
pub(crate) mod sampler;
pub(crate) mod store;
