//! Cache affinity: prefers the worker that can compute a split for less than others.
//!
//! - Without a shuffle a split has the same rows in every epoch. The worker that computed it in the epoch before has
//!   the cached rows and the pages of their files.
//! - With a shuffle over windows of files that are read from front to back, the worker that read the previous window of
//!   the same group of lanes has the next bytes in its read-ahead.
//! - With any other shuffle a split has rows from everywhere, and no worker is preferred.
//!
//! Affinity is a preference only; correctness does not depend on it. Of a consumer's next [`LOOKAHEAD`] splits the
//! first one whose preferred worker has room is granted; if there is none, the first split goes to any worker with
//! room. So no worker idles for affinity, and a split is passed over by a few others at most.
//!
//! Bounds: [`SPLITS_MAX`] splits of a job that is being read. Nothing is kept of a job that is no longer read, or
//! across a restart. Entries of dead workers are not purged; they are skipped at lookup and overwritten by the next
//! grant.

use std::collections::BTreeMap;

use forebay_core::{ConsumerIndex, WorkerId};
use forebay_plan::{EpochPlan, Graph, LaneLayout, Op, Sharding};

use super::consumer::Consumer;
use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::State;

/// Splits from a consumer's first free one on, of which one may be granted before those in front of it.
pub(in crate::state) const LOOKAHEAD: u128 = 16;
/// Splits of a job whose workers are remembered.
const SPLITS_MAX: usize = 1 << 16;

/// The preferred workers of a job's splits.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct CacheAffinity {
    key: AffinityKey,
    /// By consumer, and by the key of a split.
    of: BTreeMap<(u32, u64), WorkerId>,
}

/// What splits with the same preferred worker have in common.
#[derive(Debug, Clone, Copy, Default)]
enum AffinityKey {
    /// Nothing: no worker is preferred.
    #[default]
    None,
    /// The ordinal: all epochs have the same order.
    Ordinal,
    /// The group of lanes that a window is read from.
    Group { layout: LaneLayout, sharding: Sharding },
}

impl AffinityKey {
    fn of(record: &JobRecord) -> Self {
        let Ok(graph) = Graph::from_json(&record.graph) else { return AffinityKey::None };
        if !graph.nodes().iter().any(|node| matches!(node.op, Op::Shuffle(_))) {
            // Caches help from the second epoch on; a job of one epoch has none.
            return if record.epochs == 1 { AffinityKey::None } else { AffinityKey::Ordinal };
        }
        let groups = |plan: EpochPlan| plan.lane_layout().filter(|layout| layout.groups() > 1);
        let layout = record.plan().ok().and_then(groups);
        layout.map_or(AffinityKey::None, |layout| AffinityKey::Group { layout, sharding: record.sharding() })
    }

    fn of_split(self, consumer: u32, ordinal: u64) -> Option<(u32, u64)> {
        match self {
            AffinityKey::None => None,
            AffinityKey::Ordinal => Some((consumer, ordinal)),
            // All consumers share the windows of a group.
            AffinityKey::Group { layout, sharding } => {
                let window =
                    ordinal.saturating_mul(sharding.parts()).saturating_add(sharding.part(ConsumerIndex(consumer)));
                Some((0, window % layout.windows() % layout.groups()))
            }
        }
    }
}

impl CacheAffinity {
    pub(in crate::state) fn new(record: &JobRecord) -> Self {
        Self { key: AffinityKey::of(record), of: BTreeMap::new() }
    }

    /// Notes which worker got a split.
    pub(in crate::state) fn note(&mut self, consumer: u32, position: Position, worker: WorkerId) {
        let Some(split) = self.key.of_split(consumer, position.ordinal) else { return };
        if self.of.len() < SPLITS_MAX || self.of.contains_key(&split) {
            self.of.insert(split, worker);
        }
    }

    /// Forgets everything: the job is no longer read.
    pub(in crate::state) fn clear(&mut self) {
        self.of.clear();
    }

    #[cfg(test)]
    pub(in crate::state) fn len(&self) -> usize {
        self.of.len()
    }

    /// Returns the first of a consumer's next splits whose preferred worker may have it, with that worker. The search
    /// ends at the first window of a group that no live worker reads: passing it over would make its windows late.
    pub(in crate::state) fn first<W>(
        &self,
        index: u32,
        consumer: &Consumer,
        is_there: impl Fn(WorkerId) -> bool,
        may_have: impl Fn(Position, WorkerId) -> Option<W>,
    ) -> Option<(Position, W)> {
        if self.of.is_empty() {
            return None;
        }
        // The rest of an epoch goes before the next epoch.
        let first = consumer.free().next()?;
        let is_near =
            |p: &Position| p.epoch == first.epoch && consumer.distance(*p) - consumer.distance(first) < LOOKAHEAD;
        let preferred = |p: &Position| self.of.get(&self.key.of_split(index, p.ordinal)?).copied();
        let by_ordinal = matches!(self.key, AffinityKey::Ordinal);
        let is_read = |p: &Position| by_ordinal || preferred(p).is_some_and(&is_there);
        let next = consumer.free().take_while(|p| is_near(p) && is_read(p));
        let at_preferred = |p: Position| may_have(p, preferred(&p)?).map(|worker| (p, worker));
        next.filter(|p| !consumer.trouble.contains_key(p)).find_map(at_preferred)
    }
}

impl State {
    /// Notes which worker got a split.
    pub(in crate::state) fn note_affinity(&mut self, key: ConsumerKey, position: Position, worker: WorkerId) {
        self.jobs.get_mut(&key.0).into_iter().for_each(|job| job.affinity.note(key.1, position, worker));
    }
}
