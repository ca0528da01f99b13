//! The places where rows are kept, behind two traits.
//!
//! | module | |
//! |---|---|
//! | `tier` | [`Tier`](tier::Tier) and [`BlockTier`](tier::BlockTier): the interface of a tier |
//! | `list` | [`Tiers`](list::Tiers): the tiers of a process, in order |
//! | `memory` | rows in memory, and the division of memory between rows, copies of peers' rows, and the index |
//! | `block` | common to all tiers below memory: the bytes of a block, reading its rows, and the thread that writes blocks |
//! | `disk` | the local disk: blocks in a folder |
//! | `peers` | the blocks of other workers, and requests for rows before they are computed |
//! | `remote` | common to peers and the store: listing and reading blocks that lie elsewhere |
//! | `store` | a store that machines share |

pub(crate) mod block;
pub(crate) mod disk;
pub(crate) mod list;
pub(crate) mod memory;
pub(crate) mod peers;
pub(crate) mod remote;
pub(crate) mod store;
pub(crate) mod tier;

/// A tier of blocks below memory, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TierId {
    /// The local disk.
    Disk,
    /// Other workers: their disks and memories.
    Peers,
    /// The store that machines share.
    Store,
}

impl TierId {
    pub(crate) const ALL: [Self; 3] = [Self::Disk, Self::Peers, Self::Store];
}
