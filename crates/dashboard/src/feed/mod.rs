//! Asks the dispatcher for its callers, and remembers what it saw.
//!
//! - `calls`: the seam to the dispatcher; `remote`: over the network. (`server` has the calls of its own process.)
//! - `answers`: what was asked a moment ago is not asked again, however many pages are open.
//! - `history`: rates of jobs over time; `events`: what changed between two looks. Both are pure and bounded.
//! - `sampler`: the task that looks every two seconds; `store`: what all of these share.

pub(crate) mod answers;
pub(crate) mod calls;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod remote;
pub(crate) mod sampler;
pub(crate) mod store;
