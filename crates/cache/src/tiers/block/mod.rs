//! Blocks of rows, the common form of all tiers: on the local disk, in the store, and at peers.
//!
//! | module | |
//! |---|---|
//! | `format` | a block as bytes |
//! | `layout` | the places of its rows |
//! | `read_at` | a source of its bytes, and the reasons why it cannot be read |
//! | `name` | the name of a block |
//! | `read` | reads single rows of blocks, and checks their sums |
//! | `queue` | the bounded queue of rows, or pages, that wait to be written |
//! | `writer` | the thread that gathers rows into blocks and publishes them |
//!
//! Invariant: a row that was read has the sum that it was written with.

pub(crate) mod check;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod message;
pub(crate) mod name;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod read_at;
pub(crate) mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::quota::accounts::LastHit;
use crate::rows::number::Number;
use crate::tiers::block::layout::Layout;
use crate::tiers::block::name::Name;

/// The bytes of rows of a block, or a sixteenth of the quota where that is less.
pub(crate) const BLOCK_BYTES: u64 = 32 << 20;
/// The least bytes of a block.
pub(crate) const BLOCK_BYTES_MIN: u64 = 4 << 10;

/// A block whose header was read.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) name: Name,
    pub(crate) len: u64,
    pub(crate) layout: Layout,
    pub(crate) numbers: Vec<Number>,
    /// The memory that its rows take in the index.
    pub(crate) index_bytes: u64,
    pub(crate) last_hit: Arc<LastHit>,
    /// The number of reads of its rows, until it is copied to the disk.
    pub(crate) asked: AtomicU32,
}

/// A block, by its number and name, whose header was not read yet, or that was just written.
#[derive(Debug, Clone)]
pub(crate) struct BlockRef {
    pub(crate) id: u32,
    pub(crate) name: Name,
    pub(crate) len: u64,
    /// When a row of it was last requested.
    pub(crate) last_hit: Arc<LastHit>,
}
