//! The rows of this process that peers may list and read.
//!
//! | module | |
//! |---|---|
//! | `peer_exports` | lists and reads: blocks on the disk, and snapshots of rows in memory |
//! | `export_index` | which rows in memory are in which snapshot |
//! | `make` | makes snapshots, when a peer lists the blocks |
//! | `snapshot` | rows in memory, with the bytes that a block of them has |

pub(crate) mod export_index;
mod make;
pub(crate) mod peer_exports;
pub(crate) mod snapshot;
