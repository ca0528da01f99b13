//! Writes blocks to the store, and makes room for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::FORMAT;
use crate::key::PrefixKey;
use crate::lock::lock;
use crate::quota::accounts::LastHit;
use crate::state::{CacheState, PrefixState};
use crate::stats::Counters;
use crate::tiers::block::BlockRef;
use crate::tiers::block::name::Name;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::writer::Message;
use crate::tiers::remote::names::{mark_of, object_of};
use crate::tiers::remote::state::{BLOCK_WAIT, LIST_WAIT};
use crate::tiers::store::account::Contents;
use crate::tiers::store::tier::StoreTier;
use crate::tiers::tier::BlockSink;

/// A larger block is not stored: its one row exceeds what most stores accept at once.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

impl StoreTier {
    /// Makes room for a block, by this process's last listing; returns whether it fits. Others write meanwhile, so
    /// concurrent writes may exceed the quota.
    fn make_room(&self, prefix: PrefixKey, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).is_some_and(|sum| sum <= self.quota);
        if lock(&self.used).is_some_and(fits) {
            return true;
        }
        // A listing that succeeds does not close the breaker of writes.
        let contents = match self.store.list(&FORMAT.to_string(), LIST_WAIT) {
            Ok(contents) => Contents::new(contents),
            Err(error) => return self.note_write::<()>(Err(error)).is_some(),
        };
        let (mut used, mut left) = (contents.bytes(), HashMap::<PrefixKey, usize>::new());
        contents.blocks.iter().for_each(|(name, ..)| *left.entry(name.prefix).or_default() += 1);
        for (name, len) in contents.victims(prefix, bytes, self.quota) {
            if self.note_write(self.store.delete(&object_of(&name), LIST_WAIT)).is_none() {
                break;
            }
            used -= len;
            let blocks = left.entry(name.prefix).or_default();
            *blocks -= 1;
            if *blocks == 0 {
                let _ = self.store.delete(&mark_of(name.prefix), LIST_WAIT);
            }
        }
        *lock(&self.used) = Some(used);
        self.full.store(!fits(used), Ordering::Relaxed);
        if !fits(used) {
            // The block is not written, but nothing failed.
            self.note_write(Ok(()));
        }
        fits(used)
    }
}

impl BlockSink for StoreTier {
    fn queue(&self) -> &Queue<Message> {
        &self.queue
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn is_stopped(&self) -> bool {
        !self.is_written()
    }

    fn put(&self, cache: &CacheState, state: &PrefixState, block: &Bytes) -> Option<BlockRef> {
        let len = block.len() as u64;
        if len > BLOCK_BYTES_MAX || !self.may_write() || !self.make_room(state.key, len) {
            return None;
        }
        let name = Name::new_of(state.key);
        self.note_write(self.store.put(&object_of(&name), block.clone(), BLOCK_WAIT))?;
        lock(&self.used).iter_mut().for_each(|used| *used += len);
        let last_hit = Arc::<LastHit>::default();
        last_hit.set(cache.passes(state.key));
        Some(BlockRef { id: self.remote.know(&name), name, len, last_hit })
    }

    fn refused<'a>(&self, counters: &'a Counters) -> &'a AtomicU64 {
        &counters.store_refused
    }
}
