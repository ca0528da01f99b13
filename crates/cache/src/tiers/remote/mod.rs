//! The common part of tiers whose blocks are in a store or at peers: blocks are listed, opened and read by range.
//!
//! | module | |
//! |---|---|
//! | `blocks` | [`RemoteBlocks`](blocks::RemoteBlocks): the interface of such a place |
//! | `state` | `Remote`: the state of the place, and whether reads succeed |
//! | `tier` | `RemoteTier`: the differences between such tiers |
//! | `discovery` | lists the blocks of a prefix, and decides when to list them again |
//! | `headers`, `range_buffer` | read the headers of many blocks together; present ranges that were read as a file |
//! | `read` | reads rows by range |
//! | `maintenance` | the thread that lists, inspects blocks that seem broken, and copies blocks to the disk |
//! | `access`, `breaker` | whether requests are made now, and the pause after failures |
//! | `cost` | the cost of a read, whether it pays, which ranges are read together |
//! | `names` | the names of objects |
//!
//! Invariants: no job fails because of the place. A job waits for it only within named bounds ([`cost::WAIT_MAX`],
//! [`maintenance::OPEN_WAIT`]), and never while the breaker is open.

pub(crate) mod access;
pub(crate) mod blocks;
mod breaker;
pub(crate) mod cost;
mod discovery;
pub(crate) mod headers;
pub(crate) mod maintenance;
pub(crate) mod names;
pub(crate) mod range_buffer;
mod read;
pub(crate) mod state;
pub(crate) mod tier;
