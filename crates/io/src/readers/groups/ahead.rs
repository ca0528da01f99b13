//! Requests the bytes of groups in a store before a thread waits for the first of them.

use std::sync::Arc;

use forebay_core::Result;

use super::Groups;
use super::group::Group;
use super::parts::{Part, Parts};
use crate::formats::grouped::Grouped;

/// The bytes that a thread requests ahead, but for those of the last block.
const BYTES_MAX: u64 = 32 << 20;
/// The most blocks that a thread requests ahead.
const BLOCKS_MAX: usize = 16;

impl<F: Grouped> Groups<F> {
    /// Requests the bytes of the first blocks that no thread has begun to decode.
    ///
    /// # Errors
    /// Internal when the index has no such block.
    pub(super) fn request(&self, blocks: &[u64], groups: &[Arc<Group<Part>>]) -> Result<()> {
        let waiting = blocks.iter().zip(groups).filter(|(_, group)| !group.is_begun());
        let mut bytes = 0;
        for (&block, group) in waiting.take(BLOCKS_MAX) {
            let parts = Parts { of: self, group, block, rows: self.block_len(block)? };
            match parts.request() {
                Ok(Some(ahead)) if bytes < BYTES_MAX => bytes += ahead.len(),
                // The thread that decodes the block fails with this error.
                _ => break,
            }
        }
        Ok(())
    }
}
