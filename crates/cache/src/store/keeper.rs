//! The thread that looks after the store beside all jobs: finds blocks that others wrote, brings near what is wanted often, looks
//! closer at what seems broken, and says which prefixes are in use.
//!
//! Bounds: [`JOBS_MAX`] things wait to be done; what does not fit is not done, and comes up again when it is wanted again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::account::MARK_EVERY;
use super::look::Changes;
use super::tier::StoreTier;
use crate::FORMAT;
use crate::PrefixKey;
use crate::commands::check;
use crate::disk::{Name, Sink, Trouble, open};
use crate::index::Level;
use crate::lock::{deadline, lock, read};
use crate::shared::{Cell, Opened, Shared};
use crate::stats::add;

/// How long a pipeline that begins waits until the blocks of its prefix are known; the others are found while it runs.
pub(crate) const OPEN_WAIT: Duration = Duration::from_secs(5);
/// The most that waits to be done.
const JOBS_MAX: usize = 64;
/// Blocks whose heads are read together.
const HEADS_MAX: usize = 64;
/// How often it is seen whether a prefix is to be looked at once more.
const TICK_WAITING: Duration = Duration::from_millis(100);
/// How often it is seen what else is due.
const TICK: Duration = Duration::from_secs(30);
/// How often the store's blocks are counted, in nanoseconds.
const RECOUNT_EVERY: u64 = 300_000_000_000;

/// What is to be done. Whose prefix nobody uses any more is not.
#[derive(Debug)]
pub(crate) enum Job {
    /// Look which blocks there are.
    Look { cell: Weak<Cell>, done: Arc<Done> },
    /// Look again when that is due.
    LookAgain { cell: Weak<Cell> },
    /// Copy a block to the local disk.
    Bring { cell: Weak<Cell>, block: u32 },
    /// Read a block that seems to be broken as a whole, and remove it if it is.
    Inspect { cell: Weak<Cell>, name: Name, len: u64 },
}

/// Says that a job is done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Done {
    fn set(&self) {
        *lock(&self.done) = true;
        self.changed.notify_all();
    }

    /// Waits for it, for `limit` at most.
    fn wait(&self, limit: Duration) {
        let waited = self.changed.wait_timeout_while(lock(&self.done), limit, |done| !*done);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// What waits to be done.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    state: Mutex<(VecDeque<Job>, bool)>,
    changed: Condvar,
}

impl Jobs {
    /// Adds a job; says whether there was room.
    pub(crate) fn push(&self, job: Job) -> bool {
        let mut state = lock(&self.state);
        let fits = state.0.len() < JOBS_MAX && !state.1;
        if fits {
            // Somebody may wait for a look.
            if matches!(job, Job::Look { .. }) {
                state.0.push_front(job)
            } else {
                state.0.push_back(job)
            }
            self.changed.notify_all();
        }
        fits
    }

    pub(crate) fn close(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }

    /// Returns the next job, none when there was none by then; nothing at all when no more will come.
    fn next(&self, until: Instant) -> Option<Option<Job>> {
        let mut state = lock(&self.state);
        loop {
            if state.1 {
                return None;
            }
            if let Some(job) = state.0.pop_front() {
                return Some(Some(job));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(None);
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.map_or_else(|e| e.into_inner().0, |(state, _)| state);
        }
    }
}

impl StoreTier {
    /// Looks which blocks there are of a prefix that is about to be used, and waits for that, [`OPEN_WAIT`] at most.
    pub(crate) fn open(&self, cell: &Arc<Cell>) {
        if let Some(done) = self.look_at(cell) {
            done.wait(OPEN_WAIT);
        }
    }

    /// Notes that rows are computed which others may have stored since somebody looked. Peers are asked at once or a moment
    /// later, and again until they had no news for a while: what they have when one epoch ends is known in the next.
    pub(crate) fn missed(&self, cell: &Arc<Cell>) {
        let is_asked = self.look_at(cell).is_some();
        if self.is_ours() {
            return;
        }
        self.heard(cell.key, true);
        if !is_asked && self.wait_for(cell.key, true) {
            self.jobs.push(Job::LookAgain { cell: Arc::downgrade(cell) });
        }
    }

    fn look_at(&self, cell: &Arc<Cell>) -> Option<Arc<Done>> {
        let done = Arc::<Done>::default();
        let job = || Job::Look { cell: Arc::downgrade(cell), done: done.clone() };
        (self.is_due(cell.key) && self.jobs.push(job())).then_some(done)
    }

    /// Asks for a block to be copied to the local disk; says whether it will be tried.
    pub(crate) fn bring(&self, cell: &Arc<Cell>, block: u32) -> bool {
        self.jobs.push(Job::Bring { cell: Arc::downgrade(cell), block })
    }
}

/// Does what is to be done until the cache is closed.
pub(crate) fn run(shared: &Shared, tier: &StoreTier) {
    let mut marked: HashMap<PrefixKey, u64> = HashMap::new();
    let (mut counted, mut tidied) = (tier.now(), false);
    let mut waiting: HashMap<PrefixKey, Weak<Cell>> = HashMap::new();
    let mut until = deadline(Duration::ZERO);
    while let Some(job) = tier.jobs.next(until) {
        match job {
            Some(Job::Look { cell, done }) => {
                let own = cell.upgrade().filter(|cell| look(shared, tier, cell) && !tier.is_ours());
                done.set();
                waiting.extend(own.filter(|own| tier.wait_for(own.key, true)).map(|own| (own.key, cell)));
            }
            Some(Job::LookAgain { cell }) => waiting.extend(cell.upgrade().map(|own| (own.key, cell))),
            Some(Job::Bring { cell, block }) => {
                cell.upgrade().into_iter().for_each(|cell| bring(shared, tier, &cell, block))
            }
            Some(Job::Inspect { cell, name, len }) => {
                cell.upgrade().into_iter().for_each(|_| inspect(tier, &name, len));
            }
            None => {
                waiting.retain(|_, cell| cell.upgrade().is_some_and(|cell| !look_again(shared, tier, &cell)));
                until = deadline(if waiting.is_empty() { TICK } else { TICK_WAITING });
                if !tier.is_ours() {
                    continue;
                }
                mark(shared, tier, &mut marked);
                if !std::mem::replace(&mut tidied, true) {
                    tier.store.tidy(&FORMAT.to_string());
                }
                if tier.now() >= counted + RECOUNT_EVERY {
                    counted = tier.now();
                    tier.recount();
                }
                continue;
            }
        }
        // When nothing is to be done, the rest is seen to.
        until = deadline(Duration::ZERO);
    }
}

/// Says of each prefix that this process uses that it is used, if it has not been said lately.
fn mark(shared: &Shared, tier: &StoreTier, marked: &mut HashMap<PrefixKey, u64>) {
    let used = shared.used();
    marked.retain(|prefix, _| used.contains(prefix));
    for prefix in used {
        let now = tier.now();
        let due = marked.get(&prefix).is_none_or(|&at| now >= at + MARK_EVERY.as_nanos() as u64);
        if due && tier.mark(prefix) {
            marked.insert(prefix, now);
        }
    }
}

/// Looks once more, if that is due. Says whether nobody has to any more.
fn look_again(shared: &Shared, tier: &StoreTier, cell: &Arc<Cell>) -> bool {
    if !tier.is_waited_for(cell.key) {
        return true;
    }
    if !tier.is_due(cell.key) {
        return false;
    }
    let is_on = look(shared, tier, cell);
    !(is_on && tier.wait_for(cell.key, true))
}

/// Looks at a prefix; says whether there may soon be more.
fn look(shared: &Shared, tier: &StoreTier, cell: &Arc<Cell>) -> bool {
    let began = tier.now();
    tier.wait_for(cell.key, false);
    let has_news = take_in_changes(shared, tier, cell);
    tier.looked(cell.key, tier.now() - began);
    tier.heard(cell.key, has_news)
}

/// Takes in the blocks of a prefix that are new, and forgets those that are gone. Says whether any are new.
fn take_in_changes(shared: &Shared, tier: &StoreTier, cell: &Arc<Cell>) -> bool {
    let Some(Changes { new, gone }) = tier.look(cell.key) else { return false };
    for id in gone {
        let rows = shared.forget_block(tier.level, cell, id);
        add(&cell.counters.store_evicted, if tier.is_ours() { rows } else { 0 });
    }
    for blocks in new.chunks(HEADS_MAX) {
        for ((name, len), (id, opened)) in blocks.iter().zip(tier.heads(blocks)) {
            let taken = opened.and_then(|(head, layout)| {
                let opened = Opened { head, layout, name: name.clone(), len: *len, last_hit: Arc::default() };
                shared.take_in(tier.level, cell, id, opened)
            });
            if let Err(trouble) = taken {
                tier.drop_block(cell, name, *len, &trouble);
            }
        }
        shared.shrink();
        if !tier.is_read() {
            break;
        }
    }
    !new.is_empty()
}

/// Copies a block to the local disk, where rows of its prefix are wanted there.
fn bring(shared: &Shared, tier: &StoreTier, cell: &Arc<Cell>, id: u32) {
    let block = read(&cell.index).block(Level::Store, id).cloned();
    let Some((disk, block)) = shared.disk().zip(block) else { return };
    let there = {
        let index = read(&cell.index);
        block.numbers.iter().all(|&number| index.is_on(Level::Disk, number))
    };
    if there || !disk.wants(cell.key, block.len, shared.uses()) {
        return block.asked.store(0, std::sync::atomic::Ordering::Relaxed);
    }
    let whole = tier.whole(&block.name, block.len);
    let checked = whole.and_then(|bytes| {
        let (head, layout) = open(&bytes[..])?;
        check(&bytes[..], &head, &layout).map(|_| bytes)
    });
    match checked {
        Ok(bytes) => {
            let Some(unread) = disk.put(shared, cell, &bytes) else { return };
            shared.add_block(Level::Disk, cell, &unread, block.layout.clone(), block.numbers.clone());
            shared.shrink();
            add(&cell.counters.brought, block.numbers.len());
        }
        Err(trouble) => {
            if !matches!(trouble, Trouble::Later(_)) {
                shared.forget_block(Level::Store, cell, id);
            }
            tier.drop_block(cell, &block.name, block.len, &trouble);
        }
    }
}

/// Reads a block that seemed to be broken once more, and removes it if it is: what came over the network may have been.
fn inspect(tier: &StoreTier, name: &Name, len: u64) {
    let checked = tier.whole(name, len).and_then(|bytes| {
        let (head, layout) = open(&bytes[..])?;
        if head.prefix != name.prefix {
            return Err(Trouble::Broken("it is not of its folder's prefix".to_owned()));
        }
        check(&bytes[..], &head, &layout)
    });
    match checked {
        Err(Trouble::Broken(why)) => tier.remove_broken(name, &why),
        Ok(_) | Err(_) => tracing::debug!(block = name.name, "a block that could not be read seems right"),
    }
}
