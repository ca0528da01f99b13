//! Cached rows that workers of one service read from each other.
//!
//! - `membership`: the peers of this worker, as the dispatcher reports them
//! - `client`: connections to one peer, and the requests on them
//! - `store`: all peers as one read-only store of blocks
//! - `server`: serves the blocks of this worker to its peers

pub(crate) mod client;
pub(crate) mod membership;
pub(crate) mod server;
pub(crate) mod store;
