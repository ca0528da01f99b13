//! Common to the tiers whose blocks lie elsewhere, in a store or at peers: their blocks are listed, opened and read by
//! range.
//!
//! | module | |
//! |---|---|
//! | `blocks` | [`RemoteBlocks`](blocks::RemoteBlocks): what is needed of such a place |
//! | `state` | `Remote`: what is known of the place, and whether reads succeed |
//! | `tier` | `RemoteTier`: what differs between such tiers |
//! | `discovery` | lists the blocks of a prefix, and decides when to list them again |
//! | `headers`, `range_buffer` | read the headers of many blocks together; present ranges that were read as a file |
//! | `read` | reads rows by range |
//! | `maintenance` | the thread that lists, inspects blocks that seem broken, and copies blocks to the disk |
//! | `jobs` | the queue of jobs of that thread |
//! | `access`, `breaker` | whether the place is asked now, and when a place that fails is not |
//! | `cost` | what a read takes, whether it pays, which ranges are read together |
//! | `names` | the names of objects |
//!
//! Invariants: no job fails because of the place. A job waits for it only within named bounds ([`cost::WAIT_MAX`],
//! [`maintenance::OPEN_WAIT`]), and not at all while the breaker is open.

pub(crate) mod access;
pub(crate) mod blocks;
mod breaker;
pub(crate) mod cost;
mod discovery;
pub(crate) mod headers;
mod jobs;
pub(crate) mod maintenance;
pub(crate) mod names;
pub(crate) mod range_buffer;
mod read;
pub(crate) mod state;
pub(crate) mod tier;
