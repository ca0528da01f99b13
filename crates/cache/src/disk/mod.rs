//! The local disk: blocks in a folder, written by one thread, read row by row.
//!
//! Invariants: a block is published whole and never changed; what was read has the sum that it was written with; no job
//! waits for a write, and none fails because of the disk: a disk that is full or read-only is not written to any more, and
//! [`Tier::stopped`] says why.

mod folder;
mod format;
mod queue;
mod read;
mod tier;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use folder::{Folder, Kind, Name};
pub(crate) use format::{Head, Layout, ReadAt, Trouble, open};
pub(crate) use queue::{Next, Queue};
pub(crate) use read::{Reading, Want, are_right};
pub(crate) use tier::{Tier, Unread};
pub(crate) use writer::{Message, Rows, run};

use crate::index::Number;
use crate::space::LastHit;

/// A block that a process has read the head of.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) numbers: Vec<Number>,
    /// What finding its rows costs in memory.
    pub(crate) index_bytes: u64,
    pub(crate) last_hit: Arc<LastHit>,
}
