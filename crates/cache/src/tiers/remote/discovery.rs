//! Lists the blocks of a prefix, decides when to list them again, and stores the state of each block.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_core::Error;

use crate::key::PrefixKey;
use crate::lock::lock;
use crate::state::prefix::PrefixState;
use crate::tiers::block::name::Name;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::remote::blocks::Object;
use crate::tiers::remote::headers::{OpenedHeader, read_headers};
use crate::tiers::remote::jobs::Job;
use crate::tiers::remote::names::{object_of, parse_name};
use crate::tiers::remote::read::unanswered;
use crate::tiers::remote::state::{LIST_WAIT, Listing, Remote};
use crate::version::FORMAT;

/// The time limit of reading the headers of the blocks of one call.
const HEADS_WAIT: Duration = Duration::from_secs(10);
/// The headers of up to this many blocks take about as long as one request.
const FEW_BLOCKS: usize = 4;
/// The interval of listing a prefix while its rows are computed, in nanoseconds: another process may have stored them.
const LOOK_EVERY: u64 = 10_000_000_000;
/// The interval of listing peers, in nanoseconds. After a slow answer it is [`REST`] times the time of the answer, up
/// to [`REST_MAX`].
const ASK_EVERY: u64 = 500_000_000;
/// After an answer, peers are not listed for this many times its duration.
const REST: u64 = 4;
/// The longest such rest, in nanoseconds.
const REST_MAX: u64 = 5_000_000_000;

/// The number of consecutive listings of peers without news: they may still compute, or one was not reachable for a
/// moment.
const QUIET_MAX: u32 = 4;

/// The result of listing a prefix.
pub(super) struct Changes {
    /// Blocks that were unknown, and their bytes.
    pub(super) new: Vec<(Name, u64)>,
    /// Known blocks that are gone.
    pub(super) gone: Vec<u32>,
}

impl Remote {
    /// Says whether a prefix must be listed now, and records that it is.
    pub(super) fn is_due(&self, prefix: PrefixKey) -> bool {
        let now = self.now();
        if lock(&self.reads).breaker.is_paused(now) {
            return false;
        }
        let mut views = lock(&self.views);
        let view = views.entry(prefix).or_default();
        let every = match self.listing {
            Listing::Seldom => LOOK_EVERY,
            Listing::UntilQuiet => view.rest.max(ASK_EVERY),
        };
        let due = view.looked.is_none_or(|looked| now >= looked + every);
        view.looked = if due { Some(now) } else { view.looked };
        due
    }

    /// Records whether a prefix must be listed once more when that is due; returns whether this is a change.
    pub(super) fn wait_for(&self, prefix: PrefixKey, is_waited_for: bool) -> bool {
        let mut views = lock(&self.views);
        let view = views.get_mut(&prefix);
        view.is_some_and(|view| std::mem::replace(&mut view.is_waited_for, is_waited_for) != is_waited_for)
    }

    /// Says whether a prefix must still be listed once more.
    pub(super) fn is_waited_for(&self, prefix: PrefixKey) -> bool {
        lock(&self.views).get(&prefix).is_some_and(|view| view.is_waited_for)
    }

    /// Records whether a listing had news, or rows were missed; returns whether to list once more.
    pub(super) fn heard(&self, prefix: PrefixKey, has_news: bool) -> bool {
        let mut views = lock(&self.views);
        let Some(view) = views.get_mut(&prefix) else { return has_news };
        view.quiet = if has_news { 0 } else { view.quiet.saturating_add(1) };
        view.quiet < QUIET_MAX
    }

    /// Records that a prefix was listed, and how long that took.
    pub(super) fn looked(&self, prefix: PrefixKey, nanos: u64) {
        if let Some(view) = lock(&self.views).get_mut(&prefix) {
            view.rest = nanos.saturating_mul(REST).min(REST_MAX);
        }
    }

    /// Lists the blocks of a prefix: returns the unknown ones, and the known ones that are gone.
    pub(super) fn look(&self, prefix: PrefixKey) -> Option<Changes> {
        if !lock(&self.reads).breaker.may_ask(self.now()) {
            return None;
        }
        let listed = self.blocks.list(&format!("{FORMAT}/{prefix}"), LIST_WAIT);
        self.note_read([listed.as_ref().err()]);
        let block = |object: Object| Some((parse_name(&object.name)?, object.bytes));
        let there: Vec<(Name, u64)> = listed.ok()?.into_iter().filter_map(block).collect();
        let mut views = lock(&self.views);
        let known = &mut views.entry(prefix).or_default().known;
        let names: HashSet<&String> = there.iter().map(|(name, ..)| &name.name).collect();
        let gone = known.extract_if(|name, _| !names.contains(name)).map(|(_, id)| id).collect();
        let new = there.into_iter().filter(|(name, ..)| !known.contains_key(&name.name));
        Some(Changes { new: new.collect(), gone })
    }

    /// Reads the headers of listed blocks. The caller checks them. Blocks that a later read may open stay unknown.
    pub(super) fn read_headers(&self, blocks: &[(Name, u64)]) -> Vec<(u32, OpenedHeader)> {
        let objects: Vec<(String, u64)> = blocks.iter().map(|(name, len)| (object_of(name), *len)).collect();
        let began = self.now();
        let opened = read_headers(&*self.blocks, &objects, HEADS_WAIT);
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

    /// Assigns a number to a block.
    pub(crate) fn know(&self, name: &Name) -> u32 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) % u32::MAX;
        lock(&self.views).entry(name.prefix).or_default().known.insert(name.name.clone(), id);
        id
    }

    /// Drops the state of a prefix.
    pub(crate) fn leave(&self, prefix: PrefixKey) {
        lock(&self.views).remove(&prefix);
    }

    /// Records that a block could not be used. The maintenance thread reads a block that seems broken as a whole.
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
}
