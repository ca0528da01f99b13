//! Readers: rows by place, or a block from its start.
//!
//! Every reader returns the same row for the same sample id both ways; the tests check each reader for this.

mod blocks;
pub(crate) mod files;
pub(crate) mod frames;
mod group;
mod groups;
mod lru;
pub(crate) mod mds;
pub(crate) mod memory;
mod options;
mod packed;
pub(crate) mod partitioned;
mod parts;
mod piece;
mod pieces;
mod pool;
pub(crate) mod range;
mod reader;
pub(crate) mod tar;
pub(crate) mod tokens;
mod unpacked;
pub(crate) mod windows;

pub(crate) use groups::Groups;
pub use options::ReadOptions;
pub(crate) use pool::Pool;
pub use reader::{Chunks, Place, Reader, WindowAnnouncement};
