//! The local disk: blocks in a folder, written by one thread, read row by row. What a block is, how its rows are read and how they
//! are gathered is the same in the store that machines share (`crate::store`).
//!
//! Invariants: a block is published whole and never changed; what was read has the sum that it was written with; no job
//! waits for a write, and none fails because of the disk: a disk that is full, read-only or gone is left alone for a while (`pause`),
//! and [`Tier::stopped`] says why.

mod folder;
mod format;
mod ground;
mod pause;
mod queue;
mod read;
mod tier;
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub(crate) use folder::{Folder, Kind, Locked, Name};
pub(crate) use format::{Head, Layout, ReadAt, Stored, Trouble, encode, open};
pub(crate) use queue::{Next, Queue};
pub(crate) use read::{Reading, Want, are_right, bytes_of, ranges};
pub(crate) use tier::{BLOCK_BYTES, BLOCK_BYTES_MIN, Tier, Unread};
pub(crate) use writer::{Message, Rows, Sink, run};

use crate::index::Number;
use crate::space::LastHit;

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
