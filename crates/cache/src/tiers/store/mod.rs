//! The tier in a store that machines share.
//!
//! ```text
//! <format>/<prefix>/<name>.arrow    a block, as on disk; written once and whole, under a name that is never used again
//! <format>/<prefix>/used            empty; rewritten from time to time by each process that uses the prefix
//! ```
//!
//! | module | |
//! |---|---|
//! | `tier` | `StoreTier`: its parts, and whether writes succeed |
//! | `write` | writes blocks and makes room for them |
//! | `upkeep` | marks the prefixes in use, and counts the blocks |
//! | `account` | chooses the blocks to delete when the quota is full |
//!
//! Blocks are found and read like the blocks of any remote place (`tiers::remote`).
//!
//! The store has no owner and no locks: blocks never change, and a block that is gone is a miss. Two processes that
//! make room at the same time may delete more than needed; this has no other effect.

pub(crate) mod account;
pub(crate) mod tier;
mod upkeep;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Result, Stopwatch};

use crate::tiers::remote::blocks::RemoteBlocks;

/// The interface of a store. Each call returns before its time limit.
pub trait Store: RemoteBlocks {
    /// Writes an object, whole or not at all. The name is new.
    ///
    /// # Errors
    /// The store's error.
    fn put(&self, name: &str, bytes: Bytes, limit: Duration) -> Result<()>;

    /// Writes an empty object, which sets its time.
    ///
    /// # Errors
    /// The store's error.
    fn touch(&self, name: &str, limit: Duration) -> Result<()>;

    /// Deletes an object, if it exists.
    ///
    /// # Errors
    /// The store's error.
    fn delete(&self, name: &str, limit: Duration) -> Result<()>;

    /// Deletes incomplete uploads of dead writers below a folder, where the store does not do that itself.
    fn tidy(&self, _below: &str) {}
}

/// A store for rows, with its quota.
#[derive(Clone)]
pub struct SharedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The quota of all processes that share it, in bytes.
    pub bytes: u64,
    /// Measures reads, and decides when a failed store is tried again. It decides which rows are read or computed,
    /// never their bits.
    pub watch: Arc<dyn Stopwatch>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("store", &self.store).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
