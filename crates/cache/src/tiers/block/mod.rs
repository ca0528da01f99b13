//! Blocks of rows, as all tiers have them: on the local disk, in the store, and at peers.
//!
//! | module | |
//! |---|---|
//! | `format` | a block as bytes |
//! | `name` | the name of a block |
//! | `read` | reads single rows of blocks, and checks their sums |
//! | `queue` | the bounded queue of rows, or pages, that wait to be written |
//! | `writer` | the thread that gathers rows into blocks and publishes them |
//!
//! Invariant: a row that was read has the sum that it was written with.

pub(crate) mod format;
pub(crate) mod name;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::quota::accounts::LastHit;
use crate::rows::index::Number;
use crate::tiers::block::format::Layout;
use crate::tiers::block::name::Name;

/// Rows are gathered until they make a block of so many bytes, or a sixteenth of the quota where that is less.
pub(crate) const BLOCK_BYTES: u64 = 32 << 20;
/// But at least so many.
pub(crate) const BLOCK_BYTES_MIN: u64 = 4 << 10;

/// A block that a process has read the head of.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) name: Name,
    pub(crate) len: u64,
    pub(crate) layout: Layout,
    pub(crate) numbers: Vec<Number>,
    /// What finding its rows costs in memory.
    pub(crate) index_bytes: u64,
    pub(crate) last_hit: Arc<LastHit>,
    /// Questions that rows of it were read for, as far as that matters.
    pub(crate) asked: AtomicU32,
}

/// A block that is to be read, or was just written.
#[derive(Debug, Clone)]
pub(crate) struct BlockRef {
    pub(crate) id: u32,
    pub(crate) name: Name,
    pub(crate) len: u64,
    /// When it was last asked for a row.
    pub(crate) last_hit: Arc<LastHit>,
}
