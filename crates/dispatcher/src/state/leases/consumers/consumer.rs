//! One consumer's splits: its frontier, the leases above it, and the split to grant next.
//!
//! Epochs follow each other without a gap: the split after the last one of an epoch is the first one of the next epoch.
//! This module is arithmetic only; `grant` decides which worker gets a split.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_core::{Error, Fault, Result, Ticks, WorkerId};
use forebay_proto::JobKey;

use crate::records::Position;
use crate::state::input::SessionId;
use crate::state::leases::consumers::avoided::AvoidedWorkers;
use crate::state::leases::grants::trouble::Trouble;

/// The most splits that a consumer may request ahead of its frontier.
const WINDOW_MAX: u32 = 4096;
/// Larger positions are nonsense, and arithmetic on them would overflow.
const EPOCH_MAX: u64 = 1 << 48;
const ORDINAL_MAX: u64 = 1 << 62;
/// The most epochs that a consumer may end ahead of its frontier.
const ENDED_MAX: usize = 4096;
/// The sample number that stands for a whole split among the skipped samples of the ledger.
pub(crate) const WHOLE_SPLIT: u64 = u64::MAX;

/// The worker that holds a split, and the token of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state::leases) struct Holder {
    pub(in crate::state::leases) token: u64,
    pub(in crate::state::leases) worker: WorkerId,
}

/// The remaining leases of a split after one worker dropped its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state::leases) enum AfterDrop {
    /// The worker did not hold the split under this token.
    NotHeld,
    /// No lease is left: the split may be granted again.
    Free,
    /// The other of two leases is left: the split was backed up.
    HeldBy(Holder),
}

/// A sample of a split: its position, its number, and which repetition of it.
pub(in crate::state::leases) type SkippedSample = (Position, u64, u64);

/// The session of the process that reads a consumer.
#[derive(Debug, Clone, Copy)]
pub(in crate::state::leases) struct ConsumerSession {
    pub(in crate::state::leases) session: SessionId,
    pub(in crate::state::leases) window: u32,
    pub(in crate::state::leases) heard: Ticks,
    /// How many workers may compute for its tenant.
    pub(in crate::state::leases) workers_max: Option<u32>,
    /// Since when the process waits for rows; `None` while it does not.
    pub(in crate::state::leases) waits_since: Option<Ticks>,
    /// The key that its local workers must show; the default if it has none.
    pub(in crate::state::leases) local_key: JobKey,
}

#[derive(Debug, Clone)]
pub(in crate::state::leases) struct Consumer {
    /// Splits in an epoch; `None` if an epoch has no end.
    splits: Option<u64>,
    /// 0 if the job has no end.
    epochs: u64,
    frontier: Position,
    leases: BTreeMap<Position, Holder>,
    /// The second leases of splits that were backed up.
    backups: BTreeMap<Position, Holder>,
    /// Epochs that the consumer ended early.
    ended: BTreeSet<u64>,
    /// Every split from the frontier to here is leased.
    cursor: Position,
    pub(in crate::state::leases) trouble: BTreeMap<Position, Trouble>,
    pub(in crate::state::leases) avoided: AvoidedWorkers,
    /// When the last worker was lost that computed for its job, and that could read the files as far as is known.
    pub(in crate::state::leases) worker_lost: Option<Ticks>,
    /// Samples that the consumer left out, and their errors.
    skipped: BTreeMap<SkippedSample, Arc<str>>,
    pub(in crate::state::leases) attached: Option<ConsumerSession>,
    /// When its last session ended.
    pub(in crate::state::leases) gone: Ticks,
}

impl Consumer {
    pub(in crate::state::leases) fn new(splits: Option<u64>, epochs: u64, frontier: Position, now: Ticks) -> Self {
        Self {
            splits,
            epochs,
            frontier,
            leases: BTreeMap::new(),
            backups: BTreeMap::new(),
            ended: BTreeSet::new(),
            cursor: frontier,
            trouble: BTreeMap::new(),
            avoided: AvoidedWorkers::default(),
            worker_lost: None,
            skipped: BTreeMap::new(),
            attached: None,
            gone: now,
        }
    }

    /// Notes that a worker is gone. Worker ids are not used again.
    pub(in crate::state::leases) fn lose_worker(&mut self, now: Ticks, worker: WorkerId, computed: bool) {
        if computed && !self.avoided.could_not_read(worker) {
            self.worker_lost = Some(now);
        }
        self.avoided.forget(worker);
    }

    pub(in crate::state::leases) fn frontier(&self) -> Position {
        self.frontier
    }

    pub(in crate::state::leases) fn leases(&self) -> &BTreeMap<Position, Holder> {
        &self.leases
    }

    pub(in crate::state::leases) fn backups(&self) -> &BTreeMap<Position, Holder> {
        &self.backups
    }

    /// Returns the holder of a split under a token.
    pub(in crate::state::leases) fn holder(&self, p: Position, token: u64) -> Option<Holder> {
        let holders = [self.leases.get(&p), self.backups.get(&p)];
        holders.into_iter().flatten().find(|holder| holder.token == token).copied()
    }

    /// Returns the holder of the other lease of a split.
    pub(in crate::state::leases) fn other_holder(&self, p: Position, token: u64) -> Option<Holder> {
        let (first, second) = (self.leases.get(&p)?, self.backups.get(&p)?);
        if first.token == token { Some(*second) } else { Some(*first).filter(|_| second.token == token) }
    }

    pub(in crate::state::leases) fn skipped(&self) -> &BTreeMap<SkippedSample, Arc<str>> {
        &self.skipped
    }

    /// Returns the error of a split that is never tried again.
    pub(in crate::state::leases) fn poison(&self, p: Position) -> Option<&str> {
        self.skipped.get(&(p, WHOLE_SPLIT, 0)).map(|error| &**error)
    }

    /// Adds a sample that was left out; returns false if it was known.
    pub(in crate::state::leases) fn skip(&mut self, sample: SkippedSample, error: Arc<str>) -> bool {
        let is_new = !self.skipped.contains_key(&sample);
        self.skipped.entry(sample).or_insert(error);
        is_new
    }

    pub(in crate::state::leases) fn splits(&self) -> Option<u64> {
        self.splits
    }

    pub(in crate::state::leases) fn is_finished(&self) -> bool {
        self.end().is_some_and(|end| self.frontier >= end)
    }

    fn end(&self) -> Option<Position> {
        (self.epochs > 0).then(|| Position::new(self.epochs, 0))
    }

    /// Checks a position from outside. The end of an epoch becomes the start of the next one.
    pub(in crate::state::leases) fn check(&self, p: Position) -> Result<Position> {
        let splits_max = self.splits.unwrap_or(ORDINAL_MAX);
        let end = self.end().unwrap_or(Position::new(EPOCH_MAX, 0));
        if p > end || p.ordinal > splits_max {
            return Err(Error::invalid(format!("split {p} is not in this job"))
                .with("splits in an epoch", splits_max)
                .with("epochs", self.epochs));
        }
        Ok(self.normal(p))
    }

    /// Returns the frontier for a process that attaches at `p`. Attaching at the end of the job acknowledges nothing:
    /// the last split counts as consumed only once it is acknowledged. Otherwise the job would be over while its
    /// process may have to begin anew.
    pub(in crate::state::leases) fn begins(&self, p: Position) -> Position {
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

    /// Returns the first split from `p` on that the consumer still wants.
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

    /// Numbers all splits of all epochs consecutively.
    fn index(&self, p: Position) -> u128 {
        let splits = self.splits.map_or(1 << 64, u128::from);
        u128::from(p.epoch) * splits + u128::from(p.ordinal)
    }

    /// Returns the number of splits from the frontier to `p`, without those of ended epochs.
    pub(in crate::state::leases) fn distance(&self, p: Position) -> u128 {
        let (from, to) = (self.index(self.frontier), self.index(p));
        let inside = |e: &u64| {
            let first = self.index(Position::new(*e, 0)).max(from);
            self.index(Position::new(e + 1, 0)).min(to).saturating_sub(first)
        };
        to.saturating_sub(from) - self.ended.range(self.frontier.epoch..=p.epoch).map(inside).sum::<u128>()
    }

    /// Returns the number of splits from the frontier to the end of the job; the largest number if it has no end, or
    /// splits are not counted.
    pub(in crate::state::leases) fn splits_left(&self) -> u128 {
        let end = self.end().filter(|_| self.splits.is_some());
        end.map_or(u128::MAX, |end| self.distance(end))
    }

    /// Returns how many splits from the frontier on may be leased.
    pub(in crate::state::leases) fn window(&self) -> u128 {
        self.attached.map_or(0, |r| u128::from(r.window))
    }

    /// Returns whether the consumer waits for a split: none before it is leased.
    pub(in crate::state::leases) fn needs_next(&self, p: Position) -> bool {
        self.leases.first_key_value().is_none_or(|(first, _)| *first > p)
    }

    /// Returns the splits that may be granted now, in order: at most a window of them.
    pub(in crate::state::leases) fn free(&self) -> impl Iterator<Item = Position> {
        let mut at = self.wanted_from(self.cursor);
        std::iter::from_fn(move || {
            let p = at.filter(|p| self.distance(*p) < self.window())?;
            at = self.wanted_from(Self::after(p));
            Some(p)
        })
        .filter(|p| !self.leases.contains_key(p) && self.poison(*p).is_none())
        .filter(|p| !self.trouble.get(p).is_some_and(Trouble::is_held))
    }

    pub(in crate::state::leases) fn lease(&mut self, p: Position, holder: Holder) {
        self.leases.insert(p, holder);
        while let Some(next) = self.wanted_from(self.cursor)
            && self.leases.contains_key(&next)
        {
            self.cursor = Self::after(next);
        }
    }

    /// Leases a split to a second worker.
    pub(in crate::state::leases) fn lease_backup(&mut self, p: Position, holder: Holder) {
        self.backups.insert(p, holder);
    }

    /// Releases a split; returns its holders.
    pub(in crate::state::leases) fn release(&mut self, p: Position) -> Vec<(Position, Holder)> {
        let Some(first) = self.leases.remove(&p) else { return Vec::new() };
        self.cursor = self.cursor.min(p);
        std::iter::once(first).chain(self.backups.remove(&p)).map(|holder| (p, holder)).collect()
    }

    /// Releases splits; returns their holders.
    pub(in crate::state::leases) fn release_all(
        &mut self,
        splits: impl IntoIterator<Item = Position>,
    ) -> Vec<(Position, Holder)> {
        splits.into_iter().flat_map(|p| self.release(p)).collect()
    }

    /// Releases everything that is leased; returns the holders.
    pub(in crate::state::leases) fn release_everything(&mut self) -> Vec<(Position, Holder)> {
        let places: Vec<_> = self.leases.keys().copied().collect();
        self.release_all(places)
    }

    /// One worker drops its lease of a split.
    pub(in crate::state::leases) fn drop_lease(&mut self, p: Position, token: u64) -> AfterDrop {
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

    /// Moves the frontier; returns the leases before it, which are no longer wanted.
    pub(in crate::state::leases) fn move_to(&mut self, p: Position) -> Vec<(Position, Holder)> {
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

    /// A process attaches at the frontier; returns the leases outside its window. The epochs that an earlier process
    /// ended and the fetches that failed for it are forgotten.
    pub(in crate::state::leases) fn attach(&mut self, attached: ConsumerSession) -> Vec<(Position, Holder)> {
        self.attached = Some(ConsumerSession { window: attached.window.clamp(1, WINDOW_MAX), ..attached });
        self.ended.clear();
        self.trouble.clear();
        self.avoided = AvoidedWorkers::default();
        self.cursor = self.frontier;
        let outside: Vec<_> = self.leases.keys().copied().filter(|p| self.distance(*p) >= self.window()).collect();
        self.release_all(outside)
    }

    /// Returns the leased splits with a recorded sample whose failure may not repeat. Their workers may have computed
    /// them before that was recorded, and would send the sample to a process that begins anew.
    pub(in crate::state::leases) fn leased_with_accidents(&self) -> Vec<Position> {
        let of = |p: &Position| self.skipped.range((*p, 0, 0)..=(*p, u64::MAX, u64::MAX));
        let is_accident = |error: &Arc<str>| Error::from_json(error).fault() == Fault::Process;
        self.leases.keys().filter(|p| of(p).any(|(_, error)| is_accident(error))).copied().collect()
    }

    /// Ends an epoch early; returns its leases.
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
