//! The rows of this process that peers may list and read.
//!
//! | module | |
//! |---|---|
//! | `peer_exports` | lists and reads: blocks on the disk, and snapshots of rows in memory |
//! | `export_index` | the snapshot of each row in memory |
//! | `snapshot` | rows in memory, presented as the bytes of a block |

pub(crate) mod export_index;
pub(crate) mod peer_exports;
pub(crate) mod snapshot;
