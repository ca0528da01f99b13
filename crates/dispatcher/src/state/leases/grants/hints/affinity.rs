//! Cache affinity: prefers the worker that can compute a split for less than others.
//!
//! - Without a shuffle a split has the same rows in every epoch. The worker that computed it in the epoch before has
//!   the cached rows and the pages of their files.
//! - With a shuffle over windows of files that are read from front to back, the worker that read the previous window of
//!   the same group of lanes has the next bytes in its read-ahead.
//! - With any other shuffle a split has rows from everywhere, and no worker is preferred.
//!
//! Of a consumer's next few splits `grant` grants the first one whose preferred worker has room; if there is none, the
//! first split goes to any worker with room. So no worker idles for affinity, and few splits pass a split over.
//!
//! Bounds: [`SPLITS_MAX`] splits of a job that has consumers. No entry of a job is kept after its last consumer left,
//! or across a restart. Entries of dead workers are not purged; they are skipped at lookup and overwritten by the next
//! grant.

use std::collections::BTreeMap;

use forebay_core::{ConsumerIndex, WorkerId};
use forebay_plan::{EpochPlan, Graph, LaneLayout, Op, Sharding};

use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::leases::grants::hints::{GrantHint, HintEvent};

/// Splits of a job whose workers are remembered.
const SPLITS_MAX: usize = 1 << 16;

/// The preferred workers of all jobs' splits.
#[derive(Debug, Default)]
pub(in crate::state::leases) struct CacheAffinity(BTreeMap<u64, JobAffinity>);

/// The preferred workers of a job's splits.
#[derive(Debug, Default)]
struct JobAffinity {
    key: AffinityKey,
    /// By consumer, and by the key of a split.
    of: BTreeMap<(u32, u64), WorkerId>,
}

/// The property that splits with the same preferred worker share.
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

impl JobAffinity {
    fn worker(&self, consumer: u32, position: Position) -> Option<WorkerId> {
        self.of.get(&self.key.of_split(consumer, position.ordinal)?).copied()
    }

    fn note(&mut self, consumer: u32, position: Position, worker: WorkerId) {
        let Some(split) = self.key.of_split(consumer, position.ordinal) else { return };
        if self.of.len() < SPLITS_MAX || self.of.contains_key(&split) {
            self.of.insert(split, worker);
        }
    }
}

impl GrantHint for CacheAffinity {
    fn note(&mut self, event: &HintEvent<'_>) {
        match *event {
            HintEvent::JobAdded(record) => {
                let key = AffinityKey::of(record);
                if !matches!(key, AffinityKey::None) {
                    self.0.insert(record.id, JobAffinity { key, of: BTreeMap::new() });
                }
            }
            HintEvent::JobGone(job) => drop(self.0.remove(&job)),
            HintEvent::Unread(job) => self.0.get_mut(&job).into_iter().for_each(|job| job.of.clear()),
            HintEvent::Granted(key, position, worker) => {
                self.0.get_mut(&key.0).into_iter().for_each(|job| job.note(key.1, position, worker));
            }
        }
    }

    fn worker(&self, key: ConsumerKey, position: Position) -> Option<WorkerId> {
        self.0.get(&key.0)?.worker(key.1, position)
    }

    fn knows(&self, job: u64) -> bool {
        self.0.get(&job).is_some_and(|job| !job.of.is_empty())
    }

    /// Passing over the first window of a group that no live worker reads would make the windows of that group late.
    fn is_ordered(&self, job: u64) -> bool {
        self.0.get(&job).is_some_and(|job| matches!(job.key, AffinityKey::Group { .. }))
    }
}
