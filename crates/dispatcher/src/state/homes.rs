//! Where the rows of a split are likely to be kept: at the worker that was given the same split of the epoch before.
//!
//! Without a shuffle a split has the same rows in every epoch, so whoever computed it has what `cache()` keeps of them, and the pages of their
//! files. With one, each split has rows from everywhere, and no worker has more of them than another.
//!
//! A preference, and nothing depends on it: of the next [`AHEAD`] splits of a reader the first is granted whose worker has room, and if there
//! is none, the first, to whoever has room, as ever. So no worker idles for it, and a split is passed over by a few others at most.
//! Bounds: [`HOMES_MAX`] splits of a job that is read are remembered; of one that nobody reads any more, and after a restart, none is.
//! Nobody looks for those of a worker that is gone: they are found not to be there, and given to others with the splits.

use std::collections::BTreeMap;

use forebay_core::WorkerId;
use forebay_plan::{Graph, Op};

use super::State;
use super::consumer::Consumer;
use crate::records::{ConsumerKey, JobRecord, Position};

/// Splits of a reader, from the first that is free on, of which one may be granted before those in front of it.
pub(super) const AHEAD: u128 = 16;
/// Splits of a job whose workers are remembered.
const HOMES_MAX: usize = 1 << 16;

/// The workers of a job's splits.
#[derive(Debug, Clone, Default)]
pub(super) struct Homes {
    /// Whether all epochs have the same order.
    is_fixed: bool,
    /// By consumer and ordinal.
    of: BTreeMap<(u32, u64), WorkerId>,
}

impl Homes {
    pub(super) fn new(record: &JobRecord) -> Self {
        let graph = Graph::from_json(&record.graph);
        let is_fixed = graph.is_ok_and(|graph| !graph.nodes().iter().any(|node| matches!(node.op, Op::Shuffle { .. })));
        // What the second epoch would find, of a job that has one.
        Self { is_fixed: is_fixed && record.epochs != 1, of: BTreeMap::new() }
    }

    /// Notes who was given a split.
    pub(super) fn note(&mut self, consumer: u32, position: Position, worker: WorkerId) {
        let split = (consumer, position.ordinal);
        if self.is_fixed && (self.of.len() < HOMES_MAX || self.of.contains_key(&split)) {
            self.of.insert(split, worker);
        }
    }

    /// Nobody reads the job any more.
    pub(super) fn clear(&mut self) {
        self.of.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// Returns the first of the next splits of a consumer whose worker may have it, and that one.
    pub(super) fn first<W>(
        &self,
        index: u32,
        consumer: &Consumer,
        may_have: impl Fn(Position, WorkerId) -> Option<W>,
    ) -> Option<(Position, W)> {
        if self.of.is_empty() {
            return None;
        }
        // What is left of an epoch goes before the next one.
        let first = consumer.free().next()?;
        let is_near = |p: &Position| p.epoch == first.epoch && consumer.distance(*p) - consumer.distance(first) < AHEAD;
        let next = consumer.free().take_while(is_near);
        let at_home = |p: Position| {
            let home = self.of.get(&(index, p.ordinal))?;
            may_have(p, *home).map(|worker| (p, worker))
        };
        next.filter(|p| !consumer.trouble.contains_key(p)).find_map(at_home)
    }
}

impl State {
    /// Notes who was given a split.
    pub(super) fn note_home(&mut self, key: ConsumerKey, position: Position, worker: WorkerId) {
        self.jobs.get_mut(&key.0).into_iter().for_each(|job| job.homes.note(key.1, position, worker));
    }
}
