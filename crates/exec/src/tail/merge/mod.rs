//! Merges the ordered chunks of splits into deliveries: runs the tail's ops, makes exact batches, and names the
//! position of each.
//!
//! | module | |
//! |---|---|
//! | `batches` | makes batches of pending rows, and delivers them |
//! | `passage` | runs the ops on the rows of a chunk |
//! | `pending` | the rows that wait for their batch to be full |
//!
//! The same code merges the splits of this process and those of a service, so both give the same batches.
//!
//! Invariant: a [`Position`] names the first row not yet delivered by split, chunk and row, together with the tail's
//! counters before that chunk; replaying from there yields exactly the rest. Where rows are packed, it instead names
//! the first held token, and the number of packed rows from there on that were delivered. Where rows are put into
//! buckets, it names the first held row, the number of rows of each bucket from there on that have left it, and the
//! number of batches before it where `take` or `skip` counts them.

mod batches;
mod passage;
mod pending;

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{ChunkPlace, ConsumerIndex, Epoch, Ordinal, Result, Track, tracer};
use forebay_data::Chunk;
use forebay_plan::{Batching, Op, TailStep};

use crate::executable::Executable;
use crate::ops::compiled_op::CompiledOp;
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::OpSlot;
use crate::profile::span_log::SpanLog;
use crate::skip::known_skips::KnownSkips;
use crate::skip::skip_log::{Budget, SkipLog, SkippedSample};
use crate::tail::buckets::Bucketer;
use crate::tail::chosen_batches::ChosenBatches;
use crate::tail::delivery::Delivery;
use crate::tail::empty_cycle::EmptyCycle;
use crate::tail::merge::pending::PendingRows;
use crate::tail::pack::Packer;
use crate::tail::position::{MixPosition, Position};
use crate::tail::replay::Replay;
use crate::tail::stream_ops::{StreamChain, StreamOp};

/// Merges the chunks of one consumer. See the module's documentation.
pub struct Merge {
    executable: Arc<Executable>,
    consumer: ConsumerIndex,
    /// The number of units after which the epoch ends, if that is before its last unit.
    share: Option<u64>,
    /// The ops on rows as they come out of splits.
    before: StreamChain,
    packer: Option<Packer>,
    /// The ops on rows as they come out of packing.
    between: StreamChain,
    after: Vec<CompiledOp>,
    batching: Option<Batching>,
    bucketer: Option<Bucketer>,
    /// Which batches of buckets are delivered.
    chosen: ChosenBatches,
    /// The rows that wait for their batch to be full.
    pending: PendingRows,
    ready: VecDeque<Delivery>,
    skips: SkipLog,
    /// The position after the last chunk that was pushed.
    next: Position,
    /// Where the datasets of a mix are behind the chunk that is pushed, and whether it is the last of its split.
    behind: Option<(Arc<MixPosition>, bool)>,
    /// The number of next rows to drop, because they were delivered before this merge started.
    discard: u64,
    /// Checks the rows that are computed again.
    replay: Replay,
    /// The number of next steps to drop, because they were delivered before this merge started.
    given: u64,
    empty_cycle: EmptyCycle,
    satisfied: bool,
    scratch: Scratch,
    /// Counts the cost of packing, and of making batches.
    packing: Option<OpSlot>,
    grouping: Option<OpSlot>,
    /// The number of the stream in traces.
    stream: u64,
}

impl Merge {
    /// Starts merging for a consumer at `from`. Chunks that were delivered before must not be pushed.
    ///
    /// # Errors
    /// As [`Executable::new`], for the tail's ops.
    pub fn new(executable: Arc<Executable>, consumer: ConsumerIndex, from: &Position) -> Result<Self> {
        let stages = executable.stages().clone();
        let (mut before, mut between, mut after) = (StreamChain::default(), StreamChain::default(), Vec::new());
        let mut packer: Option<Packer> = None;
        let mut batching = stages.aligned;
        let mut bucketer: Option<Bucketer> = None;
        let mut chosen = ChosenBatches::new(from.batches);
        let (mut packing, mut grouping) = (None, None);
        let mut schema = executable.schema().clone();
        for step in &stages.tail {
            let chain = if packer.is_some() { &mut between } else { &mut before };
            match step {
                TailStep::RowOps(fused) => {
                    let seed = executable.plan().seed();
                    let compiled = CompiledOp::new(fused, &schema, seed, executable.environment(), executable.meter())?;
                    schema = compiled.schema().clone();
                    match batching.is_some() || bucketer.is_some() {
                        true => after.push(compiled),
                        false => chain.steps.push(StreamOp::Row(Box::new(compiled))),
                    }
                }
                TailStep::Mix => {}
                TailStep::Take(n) if bucketer.is_some() => chosen.take(*n),
                TailStep::Skip(n) if bucketer.is_some() => chosen.skip(*n),
                TailStep::Take(n) => chain.steps.push(StreamOp::Take(*n)),
                TailStep::Skip(n) => chain.steps.push(StreamOp::Skip(*n)),
                TailStep::Shard { count, index } => {
                    chain.steps.push(StreamOp::Shard { count: *count, index: *index });
                }
                TailStep::Pack(step) => {
                    packing = Some(executable.meter().slot(&[step.place]));
                    let made = packer.insert(Packer::new(step, from.unpacked)?);
                    schema = made.schema().clone();
                }
                TailStep::Bucket(step) => {
                    grouping = Some(executable.meter().slot(&[step.place]));
                    let made = Bucketer::new(step, executable.plan().sharding(), consumer, from)?;
                    bucketer = Some(made.within(executable.memory()));
                    schema = step.schema.clone();
                }
                TailStep::Batch(b) => {
                    let place = stages
                        .graph
                        .nodes()
                        .iter()
                        .position(|node| matches!(node.op, Op::Batch(_) | Op::PaddedBatch(_)));
                    grouping = place.map(|place| executable.meter().slot(&[place]));
                    batching = Some(*b);
                }
            }
        }
        let (first, rest) = from.counters.split_at(before.steps.len().min(from.counters.len()));
        before.count_from(first);
        between.count_from(rest);
        let mut merge = Self {
            share: executable.plan().share(consumer, from.phase),
            empty_cycle: EmptyCycle::new(executable.plan(), executable.stages(), *from != Position::default()),
            executable,
            consumer,
            before,
            packer,
            between,
            after,
            batching,
            bucketer,
            chosen,
            pending: PendingRows::default(),
            ready: VecDeque::new(),
            skips: SkipLog::new(from.tally),
            next: Position {
                epoch: from.epoch,
                split: from.split,
                chunk: from.chunk,
                rows: from.rows,
                inside: from.inside,
                passed: from.passed.clone(),
                mixed: from.mixed.clone(),
                phase: from.phase,
                ..Position::default()
            }
            .with_rows_as_part(),
            behind: None,
            discard: 0,
            replay: Replay::new(from),
            given: from.given,
            satisfied: false,
            scratch: Scratch::default(),
            packing,
            grouping,
            stream: tracer().next_stream(),
        };
        merge.satisfied = merge.is_full();
        Ok(merge)
    }

    /// Delivers again the steps that the position counts as delivered.
    pub fn keep_given(&mut self) {
        self.given = 0;
    }

    /// Sets that the stream has no last epoch.
    pub fn set_endless_epochs(&mut self) {
        self.empty_cycle.set_endless_epochs();
    }

    /// Sets how many samples may be skipped.
    pub fn set_budget(&mut self, budget: Budget) {
        self.skips.budget = budget;
    }

    /// Sets the samples that the saved run skipped by accident.
    pub fn set_known_skips(&mut self, known_skips: KnownSkips) {
        self.replay.set_known_skips(known_skips);
    }

    /// Returns the samples that were skipped since the last call.
    pub fn take_skipped(&mut self) -> Vec<SkippedSample> {
        self.skips.take()
    }

    /// Returns the number of the stream in traces of this process.
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns the track of a stream in traces of this process.
    pub fn track(stream: u64) -> Track {
        Track::Named(format!("iterator {stream}").into())
    }

    /// Says whether a chunk of the epoch is still needed.
    pub fn wants(&self, split: u64, index: u64) -> bool {
        !self.next.has_passed(split, index)
    }

    /// Accepts the next chunk of the stream: chunk `index` of split `split`. Chunks come in order, unless the tail
    /// allows any order ([`forebay_plan::Stages::check_any_order`]).
    ///
    /// # Errors
    /// Any error of the tail's ops; Data when more samples were skipped than the budget allows.
    pub fn push(&mut self, split: u64, index: u64, chunk: Chunk) -> Result<()> {
        let place = ChunkPlace { stream: self.stream, epoch: self.next.epoch, split, chunk: index };
        let log = SpanLog::if_traced(place, || Some(Self::track(place.stream)));
        self.scratch.log_spans(log.clone());
        let pushed = self.push_chunk(split, index, chunk);
        log.iter().for_each(|log| log.end("merge"));
        self.scratch.log_spans(None);
        pushed
    }

    fn push_chunk(&mut self, split: u64, index: u64, chunk: Chunk) -> Result<()> {
        let (counters, tally) = (self.counters_out(), self.skips.tally);
        let part = self.next.take_part(split, index);
        self.discard += part;
        let inside = Some((split, index)).filter(|at| *at != (self.next.split, self.next.chunk));
        let at = Position { inside, counters, tally, ..self.next.clone() };
        let chunk = self.within_share(split, index, chunk);
        self.begin_metering();
        self.next.pass(split, index);
        if let Some((after, is_last)) = self.behind.take() {
            self.next.mixed = Some(after);
            if is_last {
                self.next.end_split(split, index + 1);
            }
        }
        let chunks = self.executable.plan().num_chunks(self.consumer, Ordinal(split));
        if let Some(chunks) = chunks.filter(|chunks| self.next.has_passed_first(split, *chunks)) {
            self.next.end_split(split, chunks);
        }
        let comes_again = part > 0 || self.given > 0 || self.packer.is_some() || self.bucketer.is_some();
        let chunk = self.pass(chunk, (Epoch(self.next.epoch), split), comes_again)?;
        self.satisfied = self.is_full();
        let sizing = self.executable.plan().sizing();
        let has_counted = self.before.has_counted;
        self.empty_cycle.count(sizing.chunk_rows(index), chunk.num_rows(), has_counted, self.executable.stages())?;
        match &mut self.packer {
            None => self.accept(chunk, at)?,
            Some(packer) => {
                let span = self.scratch.tally.start();
                packer.hold(&chunk, at)?;
                self.packing.iter().for_each(|slot| self.scratch.tally.took_in(*slot, span, &chunk));
                self.pack(false)?;
            }
        }
        self.make_ready(false)?;
        self.satisfied |= self.chosen.is_full();
        let is_behind = self.bucketer.as_ref().is_some_and(Bucketer::is_behind);
        self.replay.end_chunk(self.discard > 0 || self.given > 0 || is_behind || self.next.passed.has_parts());
        self.end_metering();
        Ok(())
    }

    /// As [`Merge::push`], for rows of datasets that are mixed as they come. Behind the chunk, the datasets are at `after`.
    /// `is_last`: it is the last chunk of its split.
    ///
    /// # Errors
    /// As [`Merge::push`].
    pub(crate) fn push_mixed(
        &mut self,
        (split, index): (u64, u64),
        chunk: Chunk,
        after: Arc<MixPosition>,
        is_last: bool,
    ) -> Result<()> {
        self.behind = Some((after, is_last));
        self.push(split, index, chunk)
    }

    /// Records that all chunks of a split were pushed.
    pub fn end_split(&mut self, split: u64, chunks: u64) {
        self.next.end_split(split, chunks);
    }

    /// Ends the epoch after its last split was pushed, or when no more rows are needed: makes a short last batch, and
    /// begins the next epoch.
    ///
    /// # Errors
    /// As [`Merge::push`].
    pub fn end_epoch(&mut self) -> Result<()> {
        self.empty_cycle.end_epoch(self.executable.stages())?;
        self.begin_metering();
        self.pack(true)?;
        self.next = Position::start_of(self.next.epoch + 1);
        self.share = self.executable.plan().share(self.consumer, 0);
        self.make_ready(true)?;
        self.end_metering();
        self.pending.clear();
        self.bucketer.iter_mut().for_each(Bucketer::end_epoch);
        self.chosen.begin_epoch();
        self.before.counters.fill(0);
        self.between.counters.fill(0);
        self.skips.end_epoch();
        (self.discard, self.given) = (0, 0);
        self.satisfied = self.is_full();
        Ok(())
    }

    /// Abandons the epoch: drops the held rows, and begins the next epoch.
    pub fn leave_epoch(&mut self) {
        let next = Position::start_of(self.next.epoch + 1);
        self.packer.iter_mut().for_each(Packer::clear);
        self.bucketer.iter_mut().for_each(Bucketer::end_epoch);
        self.chosen.begin_epoch();
        self.next = next;
        self.share = self.executable.plan().share(self.consumer, 0);
        self.pending.clear();
        self.ready.clear();
        self.before.counters.fill(0);
        self.between.counters.fill(0);
        self.skips.end_epoch();
        (self.discard, self.given) = (0, 0);
        self.satisfied = self.is_full();
    }

    /// Returns the next delivery that is ready.
    pub fn pop(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Says whether a `take` has all its rows, or the consumer its share, so that no more rows of this epoch are
    /// needed.
    pub fn is_satisfied(&self) -> bool {
        self.satisfied
    }
}
