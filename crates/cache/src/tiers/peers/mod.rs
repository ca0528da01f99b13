//! Rows of peers: other processes that keep rows of the same prefixes.
//!
//! | module | |
//! |---|---|
//! | `client` | asks peers for rows that this process is about to compute |
//! | `server` | answers such a request of a peer |
//! | `exports` | the blocks and snapshots that peers may list and read |

pub(crate) mod client;
pub(crate) mod exports;
pub(crate) mod server;
