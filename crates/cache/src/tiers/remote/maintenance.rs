//! The maintenance thread of a remote tier, apart from all jobs: it finds blocks that others wrote, copies blocks that
//! are read often to the disk, inspects blocks that seem broken, and does the periodic work of its tier.
//!
//! Its jobs wait in a bounded queue (`jobs`).

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::key::PrefixKey;
use crate::lock::{deadline, read};
use crate::state::CacheState;
use crate::state::blocks::OpenedBlock;
use crate::state::prefix::PrefixState;
use crate::stats::add;
use crate::tiers::TierId;
use crate::tiers::block::check::check;
use crate::tiers::block::format::open;
use crate::tiers::block::name::Name;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::remote::discovery::Changes;
use crate::tiers::remote::jobs::{Done, Job};
use crate::tiers::remote::state::{Listing, Remote};
use crate::tiers::remote::tier::RemoteTier;
use crate::tiers::tier::{BlockSink, WantedBlock};

/// How long a starting pipeline waits for the blocks of its prefix. Later blocks are found while it runs.
pub(crate) const OPEN_WAIT: Duration = Duration::from_secs(5);
/// The number of blocks whose headers are read together.
const HEADS_MAX: usize = 64;
/// The interval of checks while a prefix must be listed once more.
const TICK_WAITING: Duration = Duration::from_millis(100);
/// The interval of checks otherwise.
const TICK: Duration = Duration::from_secs(30);
/// A block is copied to the local disk at its second read.
const COPY_AFTER: u32 = 2;

impl Remote {
    /// Lists the blocks of a prefix that is about to be used, and waits for that, at most [`OPEN_WAIT`].
    pub(crate) fn open(&self, state: &Arc<PrefixState>) {
        if let Some(done) = self.look_at(state) {
            done.wait(OPEN_WAIT);
        }
    }

    /// Records that rows are computed, which others may have stored since the last listing. Peers are listed at once or
    /// a moment later, and again until they have no news for a while, so that their blocks of one epoch are known in
    /// the next.
    pub(crate) fn missed(&self, state: &Arc<PrefixState>) {
        let is_asked = self.look_at(state).is_some();
        if self.listing == Listing::Seldom {
            return;
        }
        self.heard(state.key, true);
        if !is_asked && self.wait_for(state.key, true) {
            self.jobs.push(Job::LookAgain { state: Arc::downgrade(state) });
        }
    }

    fn look_at(&self, state: &Arc<PrefixState>) -> Option<Arc<Done>> {
        let done = Arc::<Done>::default();
        let job = || Job::Look { state: Arc::downgrade(state), done: done.clone() };
        (self.is_due(state.key) && self.jobs.push(job())).then_some(done)
    }

    /// Counts the reads of blocks. The maintenance thread copies a block that is read often to the local disk.
    pub(crate) fn copy_often(&self, state: &Arc<PrefixState>, blocks: &[WantedBlock]) {
        for WantedBlock { id, block, .. } in blocks {
            let job = || Job::CopyToDisk { state: Arc::downgrade(state), block: *id };
            let often = block.asked.fetch_add(1, Ordering::Relaxed) + 1 == COPY_AFTER;
            if often && !self.jobs.push(job()) {
                block.asked.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Does the jobs of a tier until the cache is closed.
pub(crate) fn run(cache: &CacheState, tier: &dyn RemoteTier) {
    let remote = tier.remote();
    let mut waiting: HashMap<PrefixKey, Weak<PrefixState>> = HashMap::new();
    let mut until = deadline(Duration::ZERO);
    while let Some(job) = remote.jobs.next(until) {
        match job {
            Some(Job::Look { state, done }) => {
                let again = state.upgrade().filter(|state| look(cache, tier, state));
                done.set();
                let again = again.filter(|_| remote.listing == Listing::UntilQuiet);
                waiting.extend(again.filter(|own| remote.wait_for(own.key, true)).map(|own| (own.key, state)));
            }
            Some(Job::LookAgain { state }) => waiting.extend(state.upgrade().map(|own| (own.key, state))),
            Some(Job::CopyToDisk { state, block }) => {
                state.upgrade().into_iter().for_each(|state| copy_to_disk(cache, remote, &state, block))
            }
            Some(Job::Inspect { state, name, len }) => {
                state.upgrade().into_iter().for_each(|_| inspect(tier, &name, len));
            }
            None => {
                waiting.retain(|_, state| state.upgrade().is_some_and(|state| !look_again(cache, tier, &state)));
                until = deadline(if waiting.is_empty() { TICK } else { TICK_WAITING });
                tier.upkeep(cache);
                continue;
            }
        }
        // Without a job, the thread does the periodic work.
        until = deadline(Duration::ZERO);
    }
}

/// Lists a prefix once more, if that is due. Returns whether no further listing is needed.
fn look_again(cache: &CacheState, tier: &dyn RemoteTier, state: &Arc<PrefixState>) -> bool {
    let remote = tier.remote();
    if !remote.is_waited_for(state.key) {
        return true;
    }
    if !remote.is_due(state.key) {
        return false;
    }
    let is_on = look(cache, tier, state);
    !(is_on && remote.wait_for(state.key, true))
}

/// Lists a prefix; returns whether more blocks may soon appear.
fn look(cache: &CacheState, tier: &dyn RemoteTier, state: &Arc<PrefixState>) -> bool {
    let remote = tier.remote();
    let began = remote.now();
    remote.wait_for(state.key, false);
    let has_news = take_in_changes(cache, tier, state);
    remote.looked(state.key, remote.now() - began);
    remote.heard(state.key, has_news)
}

/// Adds the new blocks of a prefix, and forgets the blocks that are gone. Returns whether any are new.
fn take_in_changes(cache: &CacheState, tier: &dyn RemoteTier, state: &Arc<PrefixState>) -> bool {
    let remote = tier.remote();
    let Some(Changes { new, gone }) = remote.look(state.key) else { return false };
    for id in gone {
        tier.note_gone(&state.counters, cache.forget_block(remote.id, state, id));
    }
    for blocks in new.chunks(HEADS_MAX) {
        for ((name, len), (id, opened)) in blocks.iter().zip(remote.read_headers(blocks)) {
            let taken = opened.and_then(|(header, layout)| {
                let opened = OpenedBlock { header, layout, name: name.clone(), len: *len, last_hit: Arc::default() };
                cache.take_in(remote.id, state, id, opened)
            });
            if let Err(trouble) = taken {
                remote.drop_block(state, name, *len, &trouble);
            }
        }
        cache.shrink();
        if !remote.is_read() {
            break;
        }
    }
    !new.is_empty()
}

/// Copies a block to the local disk, if the disk wants rows of its prefix.
fn copy_to_disk(cache: &CacheState, remote: &Remote, state: &Arc<PrefixState>, id: u32) {
    let block = read(&state.index).block(remote.id, id).cloned();
    let Some((disk, block)) = cache.disk().zip(block) else { return };
    let there = {
        let index = read(&state.index);
        block.numbers.iter().all(|&number| index.is_on(TierId::Disk, number))
    };
    if there || !disk.wants(state.key, block.len, cache.uses()) {
        return block.asked.store(0, Ordering::Relaxed);
    }
    let whole = remote.whole(&block.name, block.len);
    let checked = whole.and_then(|bytes| {
        let (header, layout) = open(&bytes[..])?;
        check(&bytes[..], &header, &layout).map(|_| bytes)
    });
    match checked {
        Ok(bytes) => {
            let Some(copied) = disk.put(cache, state, &bytes) else { return };
            cache.add_block(TierId::Disk, state, &copied, block.layout.clone(), block.numbers.clone());
            cache.shrink();
            add(&state.counters.brought, block.numbers.len());
        }
        Err(trouble) => {
            if !matches!(trouble, Trouble::Later(_)) {
                cache.forget_block(remote.id, state, id);
            }
            remote.drop_block(state, &block.name, block.len, &trouble);
        }
    }
}

/// Reads a suspect block again, and deletes it if it is broken: only the transfer may have been damaged.
fn inspect(tier: &dyn RemoteTier, name: &Name, len: u64) {
    let checked = tier.remote().whole(name, len).and_then(|bytes| {
        let (header, layout) = open(&bytes[..])?;
        if header.prefix != name.prefix {
            return Err(Trouble::Broken("it is not of its folder's prefix".to_owned()));
        }
        check(&bytes[..], &header, &layout)
    });
    match checked {
        Err(Trouble::Broken(why)) => tier.remove_broken(name, &why),
        Ok(_) | Err(_) => tracing::debug!(block = name.name, "a block that could not be read seems right"),
    }
}
