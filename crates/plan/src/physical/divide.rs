//! Where each op runs: in the epoch plan, inside a split, or once after the merge (in the tail).
//!
//! The rule: order ops move to the epoch plan as long as the number of rows is known. The first op that needs the
//! merged stream (`take` after a filter, `pack`, `bucket_by_length`, `batch_by_key`, `batch` over an unknown count) begins the tail.
//! Row ops of one image column are fused into one op, which decodes only the needed part and writes its result once.
//!
//! If failing samples are skipped, no count is known once rows have been read, so batches are made after the merge, as
//! after a filter. They are made as late as possible, just before the first op on whole batches: row ops written after
//! `batch` still run inside splits, and may lose rows before batches are counted. Order ops stay in the plan: they
//! choose among samples before any has failed. Units are as long as a batch, as if the plan aligned them, so every
//! consumer gets the same rows as without skipping.
//!
//! A mix of datasets whose rows are not counted ([`Combined::is_streamed`](crate::Combined::is_streamed)) is merged in
//! the tail, which begins with it: each of its datasets is a pipeline with stages of its own.
//!
//! Row ops are in the running order ([`RunOrder`]), in which none moves past an op of another class. Only the needed
//! columns of the source are read ([`Stages::source`]); an op on other columns only is dropped.
//!
//! The ops before `cache()` are the prefix of a split; nothing is fused across its end. `autocache()` does not affect
//! fusion, and [`Stages::with_cache_at`] returns the stages with a cache at one of its candidates. The rows are the
//! same in either case.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Schema;

use crate::graph::{Graph, Node};
use crate::ops::{self, Class, Op};
use crate::physical::cache_point::{self, CacheCandidate, CachePoint};
use crate::physical::counting::is_counted;
use crate::physical::fusion::push_row_op;
use crate::physical::late_batch::Batches;
use crate::physical::stages::Stages;
use crate::physical::steps::{Batching, FusedOp, Step, TailStep};
use crate::reorder::RunOrder;
use crate::source::{Source, SourcePart};

impl Stages {
    /// Divides a graph.
    ///
    /// # Errors
    /// Invalid when the ops are not possible in this order.
    pub fn new(graph: &Graph) -> Result<Self> {
        Self::in_parts(graph, 1)
    }

    /// Divides a graph whose rows are sharded into so many parts ([`Sharding::parts`](crate::Sharding::parts)).
    ///
    /// # Errors
    /// Errors of [`Stages::new`].
    pub fn in_parts(graph: &Graph, parts: u64) -> Result<Self> {
        let mut stages = Self::build(graph, is_counted(graph, parts), None)?;
        if let Source::Combined(combined) = &stages.source
            && combined.is_streamed()
        {
            let sharers = combined.leaves() as u64;
            // Ops behind the mix draw by the ids of rows, and name samples by them.
            let needs_ids =
                graph.nodes().iter().any(|node| !matches!(node.op.class(), Class::Order | Class::Group | Class::Hint));
            let of = |part: &SourcePart| {
                // All datasets have the error policy of the whole pipeline.
                let graph = part.graph.sharing_memory(sharers).with_on_error(graph.on_error()).with_ids(needs_ids);
                Self::in_parts(&graph, parts).map(Arc::new).map_err(|e| e.with("part", &part.name))
            };
            stages.parts = combined.parts.iter().map(of).collect::<Result<_>>()?;
            stages.counted = parts > 1;
        }
        Ok(stages)
    }

    /// Divides a graph; nothing is fused across the place after `kept` row ops.
    pub(crate) fn build(graph: &Graph, counted: bool, kept: Option<usize>) -> Result<Self> {
        let run_order = RunOrder::of(graph)?;
        let places = run_order.places().to_vec();
        let mut stages = Self::empty(graph, run_order, counted)?;
        let mut exact = counted;
        let streams = streams(graph);
        let mut batched = false;
        let mut batches = Batches::default();
        // The number of fused ops that are complete, and of row ops so far.
        let (mut closed, mut row_ops) = (0, 0);
        // The first op of the tail.
        let mut merged = None;
        let tolerant = graph.on_error().is_tolerant();
        let mut schema = stages.source.schema()?;
        for place in places {
            let (Some(node), random) = (graph.nodes()[place].over(&schema), streams[place]) else { continue };
            let input = std::mem::take(&mut schema);
            schema = node.op.apply(&input).map_err(|e| node.blame(e))?;
            let per_batch = batched && node.op.spec().runs_per_batch();
            let step = Step { node: node.clone(), place, random, schema: Arc::new(schema.clone()), per_batch };
            let in_plan = stages.tail.is_empty() && exact;
            if per_batch {
                batches.flush(&mut stages.tail);
            }
            match &node.op {
                Op::Prefetch(op) => stages.prefetch = Some(op.count),
                Op::Autocache(_) => {
                    cache_point::check(&stages, place, &node.op, merged.as_ref()).map_err(|e| node.blame(e))?;
                    cache_point::mark(&mut stages, row_ops);
                }
                Op::Cache(cache) => {
                    cache_point::check(&stages, place, &node.op, merged.as_ref()).map_err(|e| node.blame(e))?;
                    let (fused_ops, schema) = (stages.split.len(), step.schema.clone());
                    closed = fused_ops;
                    stages.cached = Some(CachePoint { fused_ops, freeze: cache.freeze, schema });
                }
                Op::Take(_) | Op::Skip(_) if batches.rows > 0 => batches.choose(&mut stages, step),
                Op::Part(_) => stages.divide(step),
                Op::Shuffle(_) | Op::SelectRows(_) => {
                    stages.check_made_rows(&step)?;
                    stages.order.push(step);
                }
                Op::Repeat(_) => stages.order.push(step),
                Op::Enumerate(_) if in_plan => {
                    stages.order.push(step.clone());
                    row_ops += 1;
                    push_row_op(&mut stages, closed, step);
                }
                Op::Enumerate(_) => return Err(node.blame(unnumbered())),
                Op::Take(_) | Op::Skip(_) | Op::Shard(_) if in_plan => stages.order.push(step),
                Op::Take(op) => stages.tail.push(TailStep::Take(op.count)),
                Op::Skip(op) => stages.tail.push(TailStep::Skip(op.count)),
                Op::Shard(op) => stages.tail.push(TailStep::Shard { count: op.count, index: op.index }),
                Op::Batch(ops::Batch { size, .. }) | Op::PaddedBatch(ops::PaddedBatch { size, .. })
                    if pads(&node.op, &input).is_some() =>
                {
                    (batched, batches.rows) = (true, *size as u64);
                    row_ops += stages.pad(&input, step, closed, in_plan).map_err(|e| node.blame(e))?;
                }
                Op::Batch(batch) => {
                    (batched, batches.rows) = (true, batch.size as u64);
                    batches.late = stages.batch(batch, in_plan, tolerant).or(batches.late.take());
                }
                Op::Pack(_) => {
                    exact = false;
                    stages.tail.push(TailStep::Pack(step));
                }
                Op::BucketByLength(_) | Op::BatchByKey(_) => {
                    (exact, batched) = (false, true);
                    row_ops += stages.bucket(input, step, closed);
                }
                op if !matches!(op.class(), Class::RowWise | Class::Filter | Class::Expand) => {
                    return Err(node.blame(Error::internal(format!("{} has no stage", op.name()))));
                }
                _ => {
                    check_random_groups(&node, &step, batched)?;
                    exact &= !node.op.is_uncounted();
                    if node.op.fan_out().is_some() {
                        match in_plan && !tolerant {
                            true => stages.order.push(step.clone()),
                            false => exact = false,
                        }
                    }
                    if stages.tail.is_empty() {
                        if kept == Some(row_ops) {
                            closed = stages.split.len();
                        }
                        row_ops += 1;
                    }
                    push_row_op(&mut stages, closed, step);
                }
            }
            merged = merged.or((!stages.tail.is_empty()).then_some(node));
        }
        batches.flush(&mut stages.tail);
        stages.counts_known = exact;
        Ok(stages)
    }

    /// Places a batch. Returns it if it is made late, because samples that fail are left out before it.
    fn batch(&mut self, batch: &ops::Batch, in_plan: bool, tolerant: bool) -> Option<Batching> {
        let batching = Batching { size: batch.size, drop_remainder: batch.drop_remainder };
        self.unit = Some(batch.size).filter(|_| in_plan);
        match (tolerant, in_plan) {
            (true, _) => return Some(batching),
            (false, true) => self.aligned = Some(batching),
            (false, false) => self.tail.push(TailStep::Batch(batching)),
        }
        None
    }

    fn empty(graph: &Graph, run_order: RunOrder, counted: bool) -> Result<Self> {
        let source = graph.projected_source()?;
        let parts = match &source {
            Source::Combined(combined) if !combined.is_streamed() => {
                let part = |part: &SourcePart| Self::build(&part.graph, true, None).map(Arc::new);
                combined.parts.iter().map(part).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        let tail = if source.is_streamed_mix() { vec![TailStep::Mix] } else { Vec::new() };
        Ok(Self {
            graph: graph.clone(),
            source,
            parts,
            run_order,
            counted,
            order: Vec::new(),
            split: Vec::new(),
            cached: None,
            candidates: Vec::new(),
            aligned: None,
            unit: None,
            tail,
            counts_known: false,
            prefetch: None,
        })
    }

    /// Returns the stages with a cache at a candidate, as if `cache()` were written there.
    ///
    /// # Errors
    /// Internal when the graph does not pass its own checks.
    pub fn with_cache_at(&self, candidate: &CacheCandidate) -> Result<Self> {
        let mut stages = Self::build(&self.graph, self.counted, Some(candidate.steps))?;
        let mut steps = 0;
        let is_before = |fused: &&FusedOp| {
            steps += fused.steps().len();
            steps <= candidate.steps
        };
        let fused_ops = stages.split.iter().take_while(is_before).count();
        let last = stages.split[..fused_ops].last().and_then(|fused| fused.steps().last());
        let schema = match last {
            Some(step) => step.schema.clone(),
            None => Arc::new(stages.source.schema()?),
        };
        stages.cached = Some(CachePoint { fused_ops, freeze: false, schema });
        Ok(stages)
    }

    /// Refuses an order op after an op that makes rows outside of the plan, because some of these rows may be skipped.
    fn check_made_rows(&self, step: &Step) -> Result<()> {
        let Some(made) = self.split.iter().find(|fused| fused.makes_rows()).filter(|_| self.fan_out().is_none()) else {
            return Ok(());
        };
        let (name, made) = (step.node.op.name(), made.steps()[0].node.op.name());
        Err(step.node.blame(
            Error::invalid(format!("{name} comes after {made}, and samples that fail are skipped"))
                .hint(format!("put {name} before {made}, or use on_error=\"raise\"")),
        ))
    }

    /// Adds a part of a split before the first shuffle and the first op that makes several rows of one.
    fn divide(&mut self, step: Step) {
        let is_shuffle = |step: &Step| matches!(step.node.op, Op::Shuffle(_) | Op::FlatMap(_));
        let at = self.order.iter().position(is_shuffle).unwrap_or(self.order.len());
        self.order.insert(at, step);
    }

    /// Adds an op that puts rows into buckets, behind its step on single rows: a row that no batch can hold fails alone.
    /// Returns the number of steps inside splits.
    fn bucket(&mut self, input: Schema, step: Step, closed: usize) -> usize {
        let before = self.split.len();
        let fits_rows = match &step.node.op {
            Op::BucketByLength(op) => op.fits_rows(),
            Op::BatchByKey(op) => op.fits_rows(&input),
            _ => false,
        };
        if fits_rows {
            push_row_op(self, closed, Step { schema: Arc::new(input), ..step.clone() });
        }
        self.tail.push(TailStep::Bucket(step));
        self.split.len() - before
    }

    /// Adds a batch that pads or stacks lists of `input`: its step on single rows, the batch, and its step on each batch.
    /// Returns the number of steps inside splits.
    fn pad(&mut self, input: &Schema, step: Step, closed: usize, in_plan: bool) -> Result<usize> {
        let batch = pads(&step.node.op, input).ok_or_else(|| Error::internal("an op that makes no batches"))?;
        let before = self.split.len();
        let batching = Batching { size: batch.size, drop_remainder: batch.drop_remainder };
        self.unit = Some(batch.size).filter(|_| in_plan);
        // Single rows are cut before they are grouped, so that a row that is too long fails alone.
        if batch.fits_rows() {
            let fitted = Arc::new(batch.fitted(input)?);
            push_row_op(self, closed, Step { schema: fitted, ..step.clone() });
        }
        match in_plan && !self.graph.on_error().is_tolerant() {
            true => self.aligned = Some(batching),
            false => self.tail.push(TailStep::Batch(batching)),
        }
        push_row_op(self, closed, Step { per_batch: true, ..step });
        Ok(self.split.len() - before)
    }
}

/// Returns how an op pads or stacks lists of `input`; `None` if it makes no batches, or no column has lists.
fn pads(op: &Op, input: &Schema) -> Option<ops::PaddedBatch> {
    match op {
        Op::PaddedBatch(batch) => Some(batch.clone()),
        Op::Batch(batch) if batch.stacks(input) => {
            let ops::Batch { size, drop_remainder } = *batch;
            Some(ops::PaddedBatch { size, drop_remainder, padding: None, valid: None, ragged: Vec::new() })
        }
        _ => None,
    }
}

/// Returns for each op, as written, the number of random ops before it: the number of its random stream.
fn streams(graph: &Graph) -> Vec<u64> {
    let number = |next: &mut u64, node: &Arc<Node>| {
        *next += u64::from(node.op.is_random());
        Some(*next - u64::from(node.op.is_random()))
    };
    graph.nodes().iter().scan(0, number).collect()
}

/// Returns the error for rows that have no number.
fn unnumbered() -> Error {
    Error::invalid("enumerate comes after ops whose rows may be skipped, and their number is not known")
        .hint("put enumerate before flat_map, or use on_error=\"raise\"")
}

/// Refuses a random function over groups of rows that the engine chose, not the user.
fn check_random_groups(node: &Arc<Node>, step: &Step, batched: bool) -> Result<()> {
    if node.op.function().is_some_and(|f| f.batched && f.with_rng) && !step.per_batch && !batched {
        return Err(node.blame(
            forebay_core::Error::invalid(
                "a batched function with rng comes before batch, where its groups are not fixed",
            )
            .hint("put it after .batch(...), or leave batched=True out"),
        ));
    }
    Ok(())
}
