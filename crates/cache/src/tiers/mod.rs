//! The places below memory where blocks of rows are kept.
//!
//! | module | |
//! |---|---|
//! | `block` | common to all tiers: the bytes of a block, reading its rows, and the thread that writes blocks |
//! | `disk` | the local disk: blocks in a folder |
//! | `store` | a store that machines share, and the blocks of peers, which are read as a store is |
//! | `peers` | rows that peers are asked for before they are computed, and the rows that peers are shown |

pub(crate) mod block;
pub(crate) mod disk;
pub(crate) mod peers;
pub(crate) mod store;

/// A tier of blocks below memory, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// The local disk.
    Disk,
    /// Other workers: their disks and memories.
    Peers,
    /// The store that machines share.
    Store,
}

impl Tier {
    pub(crate) const ALL: [Self; 3] = [Self::Disk, Self::Peers, Self::Store];
}
