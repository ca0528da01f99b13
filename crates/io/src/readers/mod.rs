//! Readers: rows by place, or a block from its start.
//!
//! Every reader returns the same row for the same sample id both ways; the tests check each reader for this.

mod blocks;
mod bytes;
mod condition;
pub(crate) mod files;
pub(crate) mod frames;
mod groups;
pub(crate) mod mds;
pub(crate) mod memory;
mod options;
pub(crate) mod partitioned;
pub(crate) mod range;
mod reader;
pub(crate) mod tar;
pub(crate) mod tokens;
mod unpacked;
pub(crate) mod windows;

pub(crate) use bytes::pool::Pool;
pub use condition::{ConditionBits, RowCondition};
pub(crate) use groups::Groups;
pub use options::ReadOptions;
pub use reader::{Chunks, Place, Reader, WindowAnnouncement};
