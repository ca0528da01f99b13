//! The local disk: blocks in a folder, written by one thread, read row by row.
//!
//! | module | |
//! |---|---|
//! | `folder` | the folder, its locks, and how a block appears in it whole or not at all |
//! | `tier` | the accounts of the folder: the blocks, and the choice of those to evict |
//! | `rows` | the tier of rows: opens blocks, reads rows of them, and publishes blocks |
//! | `mount_guard` | whether the folder is still on the disk where it was opened |
//! | `backoff` | when a disk that failed is tried again |
//!
//! Invariants: a block is published whole and never changed. No job waits for a write, and none fails because of the
//! disk: after an error (the disk is full, read-only or gone) nothing is written for a while, and
//! [`DiskTier::stopped`](tier::DiskTier::stopped) returns the reason.

mod backoff;
pub(crate) mod folder;
mod mount_guard;
mod rows;
pub(crate) mod tier;
