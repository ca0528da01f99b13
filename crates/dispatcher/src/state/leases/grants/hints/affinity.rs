//! Affinity: prefers the worker that can compute a split for less than others.
//!
//! - Without a shuffle a split has the same rows in every epoch. The worker that computed it in the epoch before has
//!   the cached rows and the pages of their files.
//! - Consecutive splits share row groups, or what was requested ahead in a file. So a worker gets **runs** of them: of
//!   the splits that a consumer may have leased, each worker has a run. A split of a run belongs to the worker that got
//!   the run's first one.
//! - With a shuffle over windows of files that are read from front to back, runs are windows of one group of lanes.
//!   Where each group has its own worker, the worker that read the previous window of the group has the next bytes in
//!   its read-ahead.
//! - With a shuffle over windows of row groups, each split has rows of all row groups of its window. So a run is a whole
//!   window. If a consumer may have leased splits of fewer windows than there are workers, as at the end of a job,
//!   workers share windows: a run is then a part of a window.
//! - With any other shuffle a split has rows from everywhere, and no worker is preferred.
//!
//! Of a consumer's next splits a worker with room gets the first one that prefers this worker or begins a run. If there
//! is none, it gets the first one: no worker idles, and few splits pass a split over. Shuffles over windows are an
//! exception: a worker gets a split of another worker's run only if the consumer needs it next. A window of a group of
//! lanes alone costs up to twice its bytes, and a split of a window of row groups costs the whole window.
//!
//! Bounds: [`SPLITS_MAX`] splits of a job that has consumers, and [`RECENT_MAX`] of its latest ones. No entry of a job is
//! kept after its last consumer left, or across a restart. Entries of dead workers are not purged; they are skipped at
//! lookup and overwritten by the next grant.

use std::collections::BTreeMap;

use forebay_core::{ConsumerIndex, WorkerId};
use forebay_plan::{Graph, LaneLayout, Op, Sharding, WindowLayout};

use crate::records::{ConsumerKey, JobRecord, Position};
use crate::state::leases::grants::hints::{GrantHint, HintEvent, Lookahead};

/// Splits of a job whose workers are remembered for the next epoch.
const SPLITS_MAX: usize = 1 << 16;
/// The latest splits of a job whose workers are remembered for their run.
const RECENT_MAX: usize = 4096;
/// The longest run: a consumer begins with the splits of one worker.
const RUN_MAX: u64 = 8;

/// The preferred workers of all jobs' splits.
#[derive(Debug, Default)]
pub(in crate::state::leases) struct CacheAffinity(BTreeMap<u64, JobAffinity>);

/// The preferred workers of a job's splits.
#[derive(Debug)]
struct JobAffinity {
    sequence: Option<Sequence>,
    /// By consumer and ordinal, in the latest epoch; `None` if another epoch has other rows, or there is no other.
    of_epoch: Option<BTreeMap<(u32, u64), WorkerId>>,
    /// By epoch, stream and index.
    recent: BTreeMap<(u64, u64, u64), WorkerId>,
}

/// The order in which splits that share reads follow each other.
#[derive(Debug, Clone, Copy)]
enum Sequence {
    /// Ordinals: those of all consumers share row groups.
    Ordinals,
    /// Windows of a group of lanes, which consumers share.
    Lanes { layout: LaneLayout, sharding: Sharding },
    /// Splits of windows of row groups, which consumers share.
    Windows(WindowLayout),
}

impl Sequence {
    /// Returns the sequence of a job's splits; `None` where splits share no reads, or each has rows from everywhere.
    fn of(record: &JobRecord, graph: &Graph, is_shuffled: bool) -> Option<Self> {
        if is_shuffled {
            let plan = record.plan().ok()?;
            let lanes = plan.lane_layout().map(|layout| Sequence::Lanes { layout, sharding: record.sharding() });
            return lanes.or_else(|| plan.window_layout().map(Sequence::Windows));
        }
        let source = graph.source();
        let is_shared = (source.facts().in_groups || source.is_remote()) && !record.is_streamed();
        is_shared.then_some(Sequence::Ordinals)
    }

    /// Returns the stream of a split, and its index in the stream.
    fn place(self, consumer: u32, ordinal: u64) -> (u64, u64) {
        match self {
            Sequence::Ordinals => (0, ordinal),
            Sequence::Lanes { layout, sharding } => {
                let window =
                    ordinal.saturating_mul(sharding.parts()).saturating_add(sharding.part(ConsumerIndex(consumer)));
                let window = window % layout.windows();
                (window % layout.groups(), window / layout.groups())
            }
            Sequence::Windows(layout) => layout.place(ordinal),
        }
    }

    /// Returns the length of a run, and whether each stream has a worker of its own.
    fn run(self, lookahead: Lookahead) -> (u64, bool) {
        let (streams, splits) = match self {
            Sequence::Ordinals => (1, lookahead.splits),
            Sequence::Lanes { layout, sharding } => {
                (layout.groups(), lookahead.splits.saturating_mul(sharding.parts()) / layout.groups())
            }
            Sequence::Windows(layout) => {
                let splits = layout.splits();
                let windows = lookahead.splits.div_ceil(splits).max(1);
                let workers = lookahead.workers.max(1).div_ceil(windows);
                return ((splits.min(lookahead.splits) / workers).max(1), workers == 1);
            }
        };
        let workers = lookahead.workers.max(1).div_ceil(streams);
        // Powers of two, so that the runs of more workers are parts of those of fewer.
        let run = (splits / workers).clamp(1, RUN_MAX);
        (1 << run.ilog2(), workers == 1)
    }
}

impl JobAffinity {
    fn new(record: &JobRecord) -> Option<Self> {
        let graph = Graph::from_json(&record.graph).ok()?;
        let is_shuffled = graph.nodes().iter().any(|node| matches!(node.op, Op::Shuffle(_)));
        let of_epoch = (!is_shuffled && record.epochs != 1).then(BTreeMap::new);
        let sequence = Sequence::of(record, &graph, is_shuffled);
        (of_epoch.is_some() || sequence.is_some()).then(|| Self { sequence, of_epoch, recent: BTreeMap::new() })
    }

    fn worker(&self, consumer: u32, position: Position, lookahead: Lookahead) -> Option<WorkerId> {
        let before = self.of_epoch.as_ref().and_then(|of| of.get(&(consumer, position.ordinal)).copied());
        before.or_else(|| self.worker_of_run(consumer, position, lookahead))
    }

    /// Returns the worker that got the first split of a run so far; where a worker has the stream for itself, also the
    /// one that got the split before the run.
    fn worker_of_run(&self, consumer: u32, position: Position, lookahead: Lookahead) -> Option<WorkerId> {
        let sequence = self.sequence?;
        let (stream, index) = sequence.place(consumer, position.ordinal);
        let (run, is_alone) = sequence.run(lookahead);
        let key = |index: u64| (position.epoch, stream, index);
        let first = index - index % run;
        let own = self.recent.range(key(first)..key(first + run)).next();
        let before = || self.recent.range(key(0)..key(first)).next_back().filter(|_| is_alone);
        own.or_else(before).map(|(_, worker)| *worker)
    }

    fn note(&mut self, consumer: u32, position: Position, worker: WorkerId) {
        if let Some(of) = &mut self.of_epoch {
            let split = (consumer, position.ordinal);
            if of.len() < SPLITS_MAX || of.contains_key(&split) {
                of.insert(split, worker);
            }
        }
        if let Some(sequence) = self.sequence {
            let (stream, index) = sequence.place(consumer, position.ordinal);
            self.recent.insert((position.epoch, stream, index), worker);
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_first();
            }
        }
    }

    fn clear(&mut self) {
        self.of_epoch.iter_mut().for_each(BTreeMap::clear);
        self.recent.clear();
    }

    fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.of_epoch.as_ref().is_none_or(BTreeMap::is_empty)
    }
}

impl GrantHint for CacheAffinity {
    fn note(&mut self, event: &HintEvent<'_>) {
        match *event {
            HintEvent::JobAdded(record) => {
                if let Some(job) = JobAffinity::new(record) {
                    self.0.insert(record.id, job);
                }
            }
            HintEvent::JobGone(job) => drop(self.0.remove(&job)),
            HintEvent::Unread(job) => self.0.get_mut(&job).into_iter().for_each(JobAffinity::clear),
            HintEvent::Granted(key, position, worker) => {
                self.0.get_mut(&key.0).into_iter().for_each(|job| job.note(key.1, position, worker));
            }
        }
    }

    fn worker(&self, key: ConsumerKey, position: Position, lookahead: Lookahead) -> Option<WorkerId> {
        self.0.get(&key.0)?.worker(key.1, position, lookahead)
    }

    fn knows(&self, job: u64) -> bool {
        self.0.get(&job).is_some_and(|job| !job.is_empty())
    }

    fn is_strict(&self, job: u64) -> bool {
        let sequence = self.0.get(&job).and_then(|job| job.sequence);
        matches!(sequence, Some(Sequence::Lanes { .. } | Sequence::Windows(_)))
    }
}
