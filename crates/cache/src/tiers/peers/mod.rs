//! The tier of peers: other processes that keep rows of the same prefixes.
//!
//! | module | |
//! |---|---|
//! | `tier` | `PeersTier`: lists and reads the blocks of peers |
//! | `ask_policy` | decides whether peers are queried for rows that they do not list |
//! | `client` | requests rows from peers that this process is about to compute |
//! | `server` | answers such a request of a peer |
//! | `exports` | the blocks and snapshots that peers may list and read |

mod ask_policy;
pub(crate) mod client;
pub(crate) mod exports;
pub(crate) mod server;
pub(crate) mod tier;
