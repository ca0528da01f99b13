//! The periodic work of a process that writes to the store: it marks the prefixes that it uses, deletes incomplete
//! uploads once, and counts the blocks, because others write, too.

use std::collections::HashMap;

use crate::FORMAT;
use crate::key::PrefixKey;
use crate::lock::lock;
use crate::state::CacheState;
use crate::tiers::remote::names::mark_of;
use crate::tiers::remote::state::LIST_WAIT;
use crate::tiers::store::account::{Contents, MARK_EVERY};
use crate::tiers::store::tier::StoreTier;

/// The interval of counting the blocks of the store, in nanoseconds.
const RECOUNT_EVERY: u64 = 300_000_000_000;

/// The time of the last run of each part of the work, by the watch of the store.
#[derive(Debug)]
pub(super) struct Upkeep {
    marked: HashMap<PrefixKey, u64>,
    counted: u64,
    is_tidied: bool,
}

impl Upkeep {
    pub(super) fn new(now: u64) -> Self {
        Self { marked: HashMap::new(), counted: now, is_tidied: false }
    }
}

impl StoreTier {
    /// Does the parts of the work that are due.
    pub(super) fn keep_up(&self, cache: &CacheState) {
        let mut upkeep = lock(&self.upkeep);
        let Upkeep { marked, counted, is_tidied } = &mut *upkeep;
        self.mark_all(&cache.used(), marked);
        if !std::mem::replace(is_tidied, true) {
            self.store.tidy(&FORMAT.to_string());
        }
        let now = self.remote.now();
        if now >= *counted + RECOUNT_EVERY {
            *counted = now;
            self.recount();
        }
    }

    /// Marks each prefix in use, if it was not marked recently.
    fn mark_all(&self, used: &[PrefixKey], marked: &mut HashMap<PrefixKey, u64>) {
        marked.retain(|prefix, _| used.contains(prefix));
        for &prefix in used {
            let now = self.remote.now();
            let due = marked.get(&prefix).is_none_or(|&at| now >= at + MARK_EVERY.as_nanos() as u64);
            if due && self.mark(prefix) {
                marked.insert(prefix, now);
            }
        }
    }

    /// Marks a prefix as in use; returns whether that succeeded.
    fn mark(&self, prefix: PrefixKey) -> bool {
        self.may_write() && self.note_write(self.store.touch(&mark_of(prefix), LIST_WAIT)).is_some()
    }

    /// Counts the bytes in the store, if this process writes to it.
    fn recount(&self) {
        if lock(&self.used).is_none() || !self.remote.is_read() {
            return;
        }
        let listed = self.store.list(&FORMAT.to_string(), LIST_WAIT);
        self.remote.note_read([listed.as_ref().err()]);
        if let Ok(listed) = listed {
            *lock(&self.used) = Some(Contents::new(listed).bytes());
            // The next write tries whether room can be made.
            self.full.store(false, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
