//! Which blocks there are of a prefix, and what is known of each.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_core::Error;

use crate::FORMAT;
use crate::key::PrefixKey;
use crate::lock::lock;
use crate::state::PrefixState;
use crate::tiers::block::format::Trouble;
use crate::tiers::block::name::Name;
use crate::tiers::store::account::Contents;
use crate::tiers::store::headers::{OpenedHeader, read_headers};
use crate::tiers::store::maintenance::Job;
use crate::tiers::store::names::object_of;
use crate::tiers::store::read::unanswered;
use crate::tiers::store::tier::{LIST_WAIT, StoreTier};

/// How long the heads of so many blocks may take that are looked at together.
const HEADS_WAIT: Duration = Duration::from_secs(10);
/// Heads of so many blocks take about as long as a request does, whatever they hold.
const FEW_BLOCKS: usize = 4;
/// How often a prefix is looked at again while rows of it are computed: another process may have stored them.
const LOOK_EVERY: u64 = 10_000_000_000;
/// How often peers are asked: they know what they have, ...
const ASK_EVERY: u64 = 500_000_000;
/// ... and answers that take long leave this many times as long in between, ...
const REST: u64 = 4;
/// ... up to this.
const REST_MAX: u64 = 5_000_000_000;

/// Peers that had no news are asked so often in a row: they may compute still, or one was just not to be reached.
const QUIET_MAX: u32 = 4;

/// What is found when a prefix is looked at.
pub(super) struct Changes {
    /// Blocks that were not known, and their bytes.
    pub(super) new: Vec<(Name, u64)>,
    /// Blocks that were known and are gone.
    pub(super) gone: Vec<u32>,
}

impl StoreTier {
    /// Says whether a prefix is to be looked at again, and notes that it is.
    pub(super) fn is_due(&self, prefix: PrefixKey) -> bool {
        let now = self.now();
        if lock(&self.reads).breaker.is_paused(now) {
            return false;
        }
        let mut views = lock(&self.views);
        let view = views.entry(prefix).or_default();
        let every = if self.is_ours() { LOOK_EVERY } else { view.rest.max(ASK_EVERY) };
        let due = view.looked.is_none_or(|looked| now >= looked + every);
        view.looked = if due { Some(now) } else { view.looked };
        due
    }

    /// Notes whether a prefix is to be looked at once more when that is due; says whether that is news.
    pub(super) fn wait_for(&self, prefix: PrefixKey, is_waited_for: bool) -> bool {
        let mut views = lock(&self.views);
        let view = views.get_mut(&prefix);
        view.is_some_and(|view| std::mem::replace(&mut view.is_waited_for, is_waited_for) != is_waited_for)
    }

    /// Says whether a prefix is still to be looked at once more.
    pub(super) fn is_waited_for(&self, prefix: PrefixKey) -> bool {
        lock(&self.views).get(&prefix).is_some_and(|view| view.is_waited_for)
    }

    /// Notes whether a look found anything new, or rows were missed; says whether to look once more.
    pub(super) fn heard(&self, prefix: PrefixKey, has_news: bool) -> bool {
        let mut views = lock(&self.views);
        let Some(view) = views.get_mut(&prefix) else { return has_news };
        view.quiet = if has_news { 0 } else { view.quiet.saturating_add(1) };
        view.quiet < QUIET_MAX
    }

    /// Notes that a prefix was looked at, and how long that took.
    pub(super) fn looked(&self, prefix: PrefixKey, nanos: u64) {
        if let Some(view) = lock(&self.views).get_mut(&prefix) {
            view.rest = nanos.saturating_mul(REST).min(REST_MAX);
        }
    }

    /// Lists the blocks of a prefix: those that are not known, and those that are known and gone.
    pub(super) fn look(&self, prefix: PrefixKey) -> Option<Changes> {
        if !lock(&self.reads).breaker.may_ask(self.now()) {
            return None;
        }
        let listed = self.store.list(&format!("{FORMAT}/{prefix}"), LIST_WAIT);
        self.note_read([listed.as_ref().err()]);
        let there = Contents::new(listed.ok()?).blocks;
        let mut views = lock(&self.views);
        let known = &mut views.entry(prefix).or_default().known;
        let names: HashSet<&String> = there.iter().map(|(name, ..)| &name.name).collect();
        let gone = known.extract_if(|name, _| !names.contains(name)).map(|(_, id)| id).collect();
        let new = there.into_iter().filter(|(name, ..)| !known.contains_key(&name.name));
        Some(Changes { new: new.map(|(name, len, _)| (name, len)).collect(), gone })
    }

    /// Opens blocks that were listed. What they are is for the caller to see; those that may be opened another time are
    /// not known.
    pub(super) fn read_headers(&self, blocks: &[(Name, u64)]) -> Vec<(u32, OpenedHeader)> {
        let objects: Vec<(String, u64)> = blocks.iter().map(|(name, len)| (object_of(name), *len)).collect();
        let began = self.now();
        let opened = read_headers(&*self.store, &objects, HEADS_WAIT);
        if opened.iter().any(Result::is_ok) && blocks.len() <= FEW_BLOCKS {
            // Two round trips at least.
            lock(&self.cost).read(1, (self.now() - began) / 2);
        }
        let errors: Vec<Error> = opened.iter().filter_map(|opened| unanswered(opened.as_ref().err()?)).collect();
        self.note_read(errors.iter().map(Some));
        let number = |((name, _), opened): (&(Name, u64), OpenedHeader)| {
            let id = if matches!(opened, Err(Trouble::Later(_) | Trouble::Gone)) { u32::MAX } else { self.know(name) };
            (id, opened)
        };
        blocks.iter().zip(opened).map(number).collect()
    }

    /// Gives a block a number.
    pub(super) fn know(&self, name: &Name) -> u32 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) % u32::MAX;
        lock(&self.views).entry(name.prefix).or_default().known.insert(name.name.clone(), id);
        id
    }

    /// Forgets all that is known of a prefix.
    pub(crate) fn leave(&self, prefix: PrefixKey) {
        lock(&self.views).remove(&prefix);
    }

    /// Notes that a block could not be used. One that seems to be broken is looked at as a whole, by another thread.
    pub(crate) fn drop_block(&self, state: &Arc<PrefixState>, name: &Name, len: u64, trouble: &Trouble) {
        match trouble {
            Trouble::Later(_) => {}
            Trouble::Gone => {
                if let Some(view) = lock(&self.views).get_mut(&name.prefix) {
                    view.known.remove(&name.name);
                }
            }
            Trouble::OtherFormat(format) => {
                self.other_format.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(format, "a block of another version is left alone");
            }
            Trouble::Broken(_) => {
                self.jobs.push(Job::Inspect { state: Arc::downgrade(state), name: name.clone(), len });
            }
        }
    }

    /// Removes a block that is not what was written.
    pub(super) fn remove_broken(&self, name: &Name, why: &str) {
        if !self.is_ours() {
            // Whoever has it finds out when it is read there.
            return tracing::warn!(block = name.name, why, "a peer's block is broken; its rows are computed again");
        }
        self.corrupt.fetch_add(1, Ordering::Relaxed);
        let block = format!("{}/{}", self.store.uri(), object_of(name));
        tracing::warn!(block, why, "a broken block is removed; its rows are computed again");
        if lock(&self.writes).breaker.may_ask(self.now()) {
            self.note_write(self.store.delete(&object_of(name), LIST_WAIT));
        }
    }
}
