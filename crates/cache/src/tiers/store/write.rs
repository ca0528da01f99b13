//! Writes blocks to the store, makes room for them, and marks prefixes in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::FORMAT;
use crate::key::PrefixKey;
use crate::lock::lock;
use crate::quota::accounts::LastHit;
use crate::state::{CacheState, PrefixState};
use crate::tiers::Tier;
use crate::tiers::block::BlockRef;
use crate::tiers::block::name::Name;
use crate::tiers::block::queue::Queue;
use crate::tiers::block::writer::{Message, Sink};
use crate::tiers::store::account::Contents;
use crate::tiers::store::names::{mark_of, object_of};
use crate::tiers::store::tier::{BLOCK_WAIT, LIST_WAIT, StoreTier};

/// A larger block is not kept there: its one row exceeds what most stores accept at once.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

impl StoreTier {
    /// Says whether rows would be written now that take `compute` nanoseconds to compute for each byte, if that is
    /// known.
    pub(crate) fn wants(&self, bytes: u64, compute: Option<f64>) -> bool {
        !self.full.load(Ordering::Relaxed)
            && self.is_written()
            && self.queue.has_room(bytes)
            && lock(&self.cost).pays_to_move(compute)
    }

    /// Says whether the store is written to at all now.
    pub(crate) fn is_written(&self) -> bool {
        !lock(&self.writes).breaker.is_paused(self.now())
    }

    /// Makes room for a block, as far as this process can know; returns whether it fits. Others write meanwhile, so
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

    /// Counts the bytes in the store, if this process writes to it, because others write, too.
    pub(super) fn recount(&self) {
        if lock(&self.used).is_none() || !self.is_read() {
            return;
        }
        let listed = self.store.list(&FORMAT.to_string(), LIST_WAIT);
        self.note_read([listed.as_ref().err()]);
        if let Ok(listed) = listed {
            *lock(&self.used) = Some(Contents::new(listed).bytes());
            // The next write finds out whether room can be made.
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Marks a prefix as in use; returns whether that succeeded.
    pub(super) fn mark(&self, prefix: PrefixKey) -> bool {
        if !lock(&self.writes).breaker.may_ask(self.now()) {
            return false;
        }
        self.note_write(self.store.touch(&mark_of(prefix), LIST_WAIT)).is_some()
    }
}

impl Sink for StoreTier {
    fn queue(&self) -> &Queue<Message> {
        &self.queue
    }

    fn tier(&self) -> Tier {
        Tier::Store
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn is_stopped(&self) -> bool {
        !self.is_written()
    }

    fn put(&self, cache: &CacheState, state: &PrefixState, block: &Bytes) -> Option<BlockRef> {
        let len = block.len() as u64;
        if len > BLOCK_BYTES_MAX || !lock(&self.writes).breaker.may_ask(self.now()) || !self.make_room(state.key, len) {
            return None;
        }
        let name = Name::new_of(state.key);
        self.note_write(self.store.put(&object_of(&name), block.clone(), BLOCK_WAIT))?;
        lock(&self.used).iter_mut().for_each(|used| *used += len);
        let last_hit = Arc::<LastHit>::default();
        last_hit.set(cache.passes(state.key));
        Some(BlockRef { id: self.know(&name), name, len, last_hit })
    }
}
