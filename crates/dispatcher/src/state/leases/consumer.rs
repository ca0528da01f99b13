//! One consumer's splits: where it has got to, what is leased above that, and what comes next.
//!
//! Epochs follow each other without a gap: the split after the last of an epoch is the first of the next. Arithmetic
//! only; who gets a split is decided in `grant`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Fault, Result, Ticks, WorkerId};
use forebay_proto::JobKey;

use super::poison::{DEATHS_MAX, WHOLE_SPLIT};
use crate::records::Position;
use crate::state::SessionId;
use crate::state::scaling::local_workers::LocalThreads;

/// The most splits that a consumer may ask to have ahead.
const WINDOW_MAX: u32 = 4096;
/// Positions beyond these are nonsense, and would overflow.
const EPOCH_MAX: u64 = 1 << 48;
const ORDINAL_MAX: u64 = 1 << 62;
/// The longest that a worker that could not be reached is left out.
const UNREACHED_MAX: Duration = Duration::from_secs(60);
/// Epochs that may be ended ahead of the frontier.
const ENDED_MAX: usize = 4096;

/// Who holds a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) struct Holder {
    pub(in crate::state) token: u64,
    pub(in crate::state) worker: WorkerId,
}

/// Who holds a split when one worker has let go of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum AfterDrop {
    /// It was not that worker's.
    NotHeld,
    /// Nobody: it may be granted again.
    Free,
    /// The other one that raced for it.
    HeldBy(Holder),
}

/// What went wrong with a split so far.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Trouble {
    /// Times that the consumer could not fetch it.
    pub(in crate::state) failures: u32,
    /// Times that a worker answered, and refused.
    pub(in crate::state) refusals: u32,
    /// Since when the consumer can fetch it from no worker.
    pub(in crate::state) unreached: Option<Ticks>,
    /// The workers that were lost while they were at it, and have not come back.
    pub(in crate::state) deaths: Vec<Death>,
    /// The worker it failed at last, and when.
    pub(in crate::state) avoid: Option<(WorkerId, Ticks)>,
}

/// A worker that was lost, and when.
#[derive(Debug, Clone)]
pub(in crate::state) struct Death {
    pub(in crate::state) worker: WorkerId,
    pub(in crate::state) address: Arc<str>,
    pub(in crate::state) at: Ticks,
}

/// A worker that the reader could not reach.
#[derive(Debug, Clone, Copy)]
struct Unreached {
    times: u32,
    /// When it is worth another try.
    until: Ticks,
}

impl Trouble {
    /// Says whether it has ended as many workers as it may, if they are dead: nobody gets it until that is known.
    pub(in crate::state) fn is_held(&self) -> bool {
        self.deaths.len() >= DEATHS_MAX
    }

    /// Says whether it may be what ends workers: one death is an accident.
    pub(in crate::state) fn is_suspect(&self) -> bool {
        self.deaths.len() > 1
    }
}

/// A sample of a split: its number, and which time round.
pub(in crate::state) type SkippedSample = (Position, u64, u64);

/// A reader that is connected.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct ConsumerSession {
    pub(in crate::state) session: SessionId,
    pub(in crate::state) window: u32,
    pub(in crate::state) heard: Ticks,
    /// How many workers may compute for its tenant.
    pub(in crate::state) workers_max: Option<u32>,
    /// Since when it waits for rows, if it does.
    pub(in crate::state) waits_since: Option<Ticks>,
    /// What its local workers show; none where it has none.
    pub(in crate::state) local_key: JobKey,
}

#[derive(Debug, Clone)]
pub(in crate::state) struct Consumer {
    /// Splits of an epoch; `None` is without end.
    splits: Option<u64>,
    /// 0 is without end.
    epochs: u64,
    frontier: Position,
    leases: BTreeMap<Position, Holder>,
    /// Of splits that are raced, the second lease.
    backups: BTreeMap<Position, Holder>,
    /// Epochs of which no more is needed.
    ended: BTreeSet<u64>,
    /// Every split from the frontier to here is leased.
    cursor: Position,
    pub(in crate::state) trouble: BTreeMap<Position, Trouble>,
    unreached: BTreeMap<WorkerId, Unreached>,
    /// Samples that were left out, and their errors.
    skipped: BTreeMap<SkippedSample, Arc<str>>,
    pub(in crate::state) attached: Option<ConsumerSession>,
    /// How many threads of its machine compute for it.
    pub(in crate::state) local: LocalThreads,
    /// When the reader was lost.
    pub(in crate::state) gone: Ticks,
}

impl Consumer {
    pub(in crate::state) fn new(splits: Option<u64>, epochs: u64, frontier: Position, now: Ticks) -> Self {
        Self {
            splits,
            epochs,
            frontier,
            leases: BTreeMap::new(),
            backups: BTreeMap::new(),
            ended: BTreeSet::new(),
            cursor: frontier,
            trouble: BTreeMap::new(),
            unreached: BTreeMap::new(),
            skipped: BTreeMap::new(),
            attached: None,
            local: LocalThreads::default(),
            gone: now,
        }
    }

    pub(in crate::state) fn frontier(&self) -> Position {
        self.frontier
    }

    pub(in crate::state) fn leases(&self) -> &BTreeMap<Position, Holder> {
        &self.leases
    }

    pub(in crate::state) fn backups(&self) -> &BTreeMap<Position, Holder> {
        &self.backups
    }

    /// Returns who holds a split under a token.
    pub(in crate::state) fn holder(&self, p: Position, token: u64) -> Option<Holder> {
        let holders = [self.leases.get(&p), self.backups.get(&p)];
        holders.into_iter().flatten().find(|holder| holder.token == token).copied()
    }

    /// Returns who else holds a split that is held under a token.
    pub(in crate::state) fn other_holder(&self, p: Position, token: u64) -> Option<Holder> {
        let (first, second) = (self.leases.get(&p)?, self.backups.get(&p)?);
        if first.token == token { Some(*second) } else { Some(*first).filter(|_| second.token == token) }
    }

    pub(in crate::state) fn skipped(&self) -> &BTreeMap<SkippedSample, Arc<str>> {
        &self.skipped
    }

    /// Returns why a split is never tried again, if it is not.
    pub(in crate::state) fn poison(&self, p: Position) -> Option<&str> {
        self.skipped.get(&(p, WHOLE_SPLIT, 0)).map(|error| &**error)
    }

    /// Adds a sample that was left out; false when it was known.
    pub(in crate::state) fn skip(&mut self, sample: SkippedSample, error: Arc<str>) -> bool {
        let is_new = !self.skipped.contains_key(&sample);
        self.skipped.entry(sample).or_insert(error);
        is_new
    }

    pub(in crate::state) fn splits(&self) -> Option<u64> {
        self.splits
    }

    pub(in crate::state) fn is_finished(&self) -> bool {
        self.end().is_some_and(|end| self.frontier >= end)
    }

    fn end(&self) -> Option<Position> {
        (self.epochs > 0).then(|| Position::new(self.epochs, 0))
    }

    /// Checks a position that came from outside, and writes the end of an epoch as the start of the next.
    pub(in crate::state) fn check(&self, p: Position) -> Result<Position> {
        let splits_max = self.splits.unwrap_or(ORDINAL_MAX);
        let end = self.end().unwrap_or(Position::new(EPOCH_MAX, 0));
        if p > end || p.ordinal > splits_max {
            return Err(Error::invalid(format!("split {p} is not in this job"))
                .with("splits in an epoch", splits_max)
                .with("epochs", self.epochs));
        }
        Ok(self.normal(p))
    }

    /// Returns where a reader begins that says what it wants first. What it has is not yet consumed: the last split is, once it is
    /// acknowledged, so that no job is over while its reader may have to begin anew.
    pub(in crate::state) fn begins(&self, p: Position) -> Position {
        if self.is_finished() || self.end().is_none_or(|end| p < end) {
            return p;
        }
        let last = self.splits.and_then(|splits| splits.checked_sub(1));
        last.map_or(self.frontier, |last| Position::new(self.epochs - 1, last))
    }

    fn normal(&self, p: Position) -> Position {
        match self.splits {
            Some(n) if p.ordinal >= n && p.ordinal > 0 => Position::new(p.epoch + 1, 0),
            _ => p,
        }
    }

    /// Returns the first split that is wanted from `p` on.
    fn wanted_from(&self, p: Position) -> Option<Position> {
        if self.splits == Some(0) {
            return None;
        }
        let mut p = self.normal(p);
        while self.ended.contains(&p.epoch) {
            p = Position::new(p.epoch + 1, 0);
        }
        self.end().is_none_or(|end| p < end).then_some(p)
    }

    fn after(p: Position) -> Position {
        Position::new(p.epoch, p.ordinal + 1)
    }

    /// A number for each place, rising by one from split to split.
    fn index(&self, p: Position) -> u128 {
        let splits = self.splits.map_or(1 << 64, u128::from);
        u128::from(p.epoch) * splits + u128::from(p.ordinal)
    }

    /// How many splits lie from the frontier to `p`, without those of ended epochs.
    pub(in crate::state) fn distance(&self, p: Position) -> u128 {
        let (from, to) = (self.index(self.frontier), self.index(p));
        let inside = |e: &u64| {
            let first = self.index(Position::new(*e, 0)).max(from);
            self.index(Position::new(e + 1, 0)).min(to).saturating_sub(first)
        };
        to.saturating_sub(from) - self.ended.range(self.frontier.epoch..=p.epoch).map(inside).sum::<u128>()
    }

    fn window(&self) -> u128 {
        self.attached.map_or(0, |r| u128::from(r.window))
    }

    /// Returns the splits that may be granted now, the first first. At most a window of them.
    pub(in crate::state) fn free(&self) -> impl Iterator<Item = Position> {
        let mut at = self.wanted_from(self.cursor);
        std::iter::from_fn(move || {
            let p = at.filter(|p| self.distance(*p) < self.window())?;
            at = self.wanted_from(Self::after(p));
            Some(p)
        })
        .filter(|p| !self.leases.contains_key(p) && self.poison(*p).is_none())
        .filter(|p| !self.trouble.get(p).is_some_and(Trouble::is_held))
    }

    pub(in crate::state) fn lease(&mut self, p: Position, holder: Holder) {
        self.leases.insert(p, holder);
        while let Some(next) = self.wanted_from(self.cursor)
            && self.leases.contains_key(&next)
        {
            self.cursor = Self::after(next);
        }
    }

    /// Leases a split a second time.
    pub(in crate::state) fn lease_backup(&mut self, p: Position, holder: Holder) {
        self.backups.insert(p, holder);
    }

    /// Lets go of a split; returns who held it.
    pub(in crate::state) fn release(&mut self, p: Position) -> Vec<(Position, Holder)> {
        let Some(first) = self.leases.remove(&p) else { return Vec::new() };
        self.cursor = self.cursor.min(p);
        std::iter::once(first).chain(self.backups.remove(&p)).map(|holder| (p, holder)).collect()
    }

    /// Lets go of splits; returns who held them.
    pub(in crate::state) fn release_all(
        &mut self,
        splits: impl IntoIterator<Item = Position>,
    ) -> Vec<(Position, Holder)> {
        splits.into_iter().flat_map(|p| self.release(p)).collect()
    }

    /// Lets go of everything that is leased; returns who held it.
    pub(in crate::state) fn release_everything(&mut self) -> Vec<(Position, Holder)> {
        let places: Vec<_> = self.leases.keys().copied().collect();
        self.release_all(places)
    }

    /// One worker lets go of a split.
    pub(in crate::state) fn drop_lease(&mut self, p: Position, token: u64) -> AfterDrop {
        match (self.leases.get(&p).copied(), self.backups.get(&p).copied()) {
            (Some(first), Some(second)) if second.token == token => {
                self.backups.remove(&p);
                AfterDrop::HeldBy(first)
            }
            (Some(first), second) if first.token == token => match second {
                Some(second) => {
                    self.backups.remove(&p);
                    self.leases.insert(p, second);
                    AfterDrop::HeldBy(second)
                }
                None => {
                    self.release(p);
                    AfterDrop::Free
                }
            },
            _ => AfterDrop::NotHeld,
        }
    }

    /// Moves the frontier; returns the leases that are no longer wanted: those before it.
    pub(in crate::state) fn move_to(&mut self, p: Position) -> Vec<(Position, Holder)> {
        self.cursor = if p < self.frontier { p } else { self.cursor.max(p) };
        self.frontier = p;
        let kept = self.leases.split_off(&p);
        let dropped = std::mem::replace(&mut self.leases, kept);
        let kept = self.backups.split_off(&p);
        let raced = std::mem::replace(&mut self.backups, kept);
        self.trouble = self.trouble.split_off(&p);
        self.ended = self.ended.split_off(&p.epoch);
        dropped.into_iter().chain(raced).collect()
    }

    /// A reader begins, at the frontier; returns the leases outside of its window. What an earlier one said of epochs
    /// that it needed no more of, and of splits that it could not fetch, is forgotten.
    pub(in crate::state) fn attach(&mut self, attached: ConsumerSession) -> Vec<(Position, Holder)> {
        self.attached = Some(ConsumerSession { window: attached.window.clamp(1, WINDOW_MAX), ..attached });
        self.local = LocalThreads::default();
        self.ended.clear();
        self.trouble.clear();
        self.unreached.clear();
        self.cursor = self.frontier;
        let outside: Vec<_> = self.leases.keys().copied().filter(|p| self.distance(*p) >= self.window()).collect();
        self.release_all(outside)
    }

    /// Returns the splits that are leased and of which a sample is lost that might not fail again. Whoever holds such a split may have it
    /// from before that was written down, and would give the sample to a reader that begins anew.
    pub(in crate::state) fn leased_with_accidents(&self) -> Vec<Position> {
        let of = |p: &Position| self.skipped.range((*p, 0, 0)..=(*p, u64::MAX, u64::MAX));
        let is_accident = |error: &Arc<str>| Error::from_json(error).fault() == Fault::Process;
        self.leases.keys().filter(|p| of(p).any(|(_, error)| is_accident(error))).copied().collect()
    }

    /// The reader could not reach a worker: it is given none of its splits for a while, `first` and then twice as long
    /// each time.
    pub(in crate::state) fn set_unreached(&mut self, now: Ticks, worker: WorkerId, first: Duration) {
        let was = self.unreached.get(&worker).copied().unwrap_or(Unreached { times: 0, until: now });
        // The splits of one connection are reported one by one, and break together.
        if now < was.until {
            return;
        }
        let times = if now - was.until < UNREACHED_MAX { was.times } else { 0 };
        let pause = first.saturating_mul(1 << times.min(16)).min(UNREACHED_MAX);
        self.unreached.insert(worker, Unreached { times: times + 1, until: now + pause });
    }

    /// Says whether the reader could not reach a worker a while ago.
    pub(in crate::state) fn is_unreached(&self, now: Ticks, worker: WorkerId) -> bool {
        self.unreached.get(&worker).is_some_and(|u| now < u.until)
    }

    /// Says whether there is a worker that is left out.
    pub(in crate::state) fn waits_for_others(&self, now: Ticks) -> bool {
        self.unreached.values().any(|u| now < u.until)
    }

    /// A worker is gone: its number does not come again.
    pub(in crate::state) fn forget_worker(&mut self, worker: WorkerId) {
        self.unreached.remove(&worker);
    }

    /// Nothing more of `epoch` is wanted; returns its leases.
    pub(in crate::state) fn end_epoch(&mut self, epoch: u64) -> Vec<(Position, Holder)> {
        if epoch < self.frontier.epoch || epoch >= EPOCH_MAX || self.ended.len() >= ENDED_MAX {
            return Vec::new();
        }
        self.ended.insert(epoch);
        let range = Position::new(epoch, 0)..Position::new(epoch + 1, 0);
        let places: Vec<_> = self.leases.range(range).map(|(p, _)| *p).collect();
        self.release_all(places)
    }
}
