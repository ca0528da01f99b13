//! Where each op runs: in the epoch plan, inside a split, or once after the merge (in the tail).
//!
//! The rule: order ops move to the epoch plan as long as the number of rows is known. The first op that needs the
//! merged stream (`take` after a filter, `pack`, `bucket_by_length`, `batch` over an unknown count) begins the tail.
//! Row ops of one image column are fused into one op, which decodes only the needed part and writes its result once.
//!
//! If failing samples are skipped, no count is known once rows have been read, so batches are made after the merge, as
//! after a filter. They are made as late as possible, just before the first op on whole batches: row ops written after
//! `batch` still run inside splits, and may lose rows before batches are counted. Order ops stay in the plan: they
//! choose among samples before any has failed. Units are as long as a batch, as if the plan aligned them, so every
//! consumer gets the same rows as without skipping.
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

use crate::epoch::window;
use crate::graph::{Graph, Node};
use crate::ops::{self, Class, Op};
use crate::physical::cache_point::{self, CacheCandidate, CachePoint};
use crate::reorder::RunOrder;
use crate::source::facts::RowsKnown;
use crate::source::{Source, SourcePart};

/// One op where it runs.
#[derive(Debug, Clone)]
pub struct Step {
    /// The op as written, over the columns that were read.
    pub node: Arc<Node>,
    /// Its index among all ops as written.
    pub place: usize,
    /// Its number among the random ops as written. It identifies the random stream, wherever the op runs.
    pub random: u64,
    /// The columns after it.
    pub schema: Arc<Schema>,
    /// Whether it is called once for each batch.
    pub per_batch: bool,
}

/// One op, or several fused ops, that a thread runs in one pass.
#[derive(Debug, Clone)]
pub enum FusedOp {
    /// Consecutive ops on one image column, fused.
    Image {
        /// The column.
        column: String,
        /// The ops.
        steps: Vec<Step>,
    },
    /// A vectorised op on columns.
    Table(Step),
    /// Converts text to token ids.
    Tokenize(Step),
    /// A user's Python function.
    Function(Step),
    /// A user's Python function that makes any number of rows of a row.
    FlatMap(Step),
    /// The number of a row in the epoch.
    Number(Step),
    /// Mixes samples within their batch.
    Mix(Step),
    /// Rows of a batch padded to one length.
    Pad(Step),
}

impl FusedOp {
    /// Makes a fused op of one step.
    pub fn of(step: Step) -> Self {
        match (step.node.op.image_column(), step.node.op.function()) {
            (Some(column), _) => FusedOp::Image { column: column.to_owned(), steps: vec![step] },
            (None, Some(_)) if matches!(step.node.op, Op::FlatMap(_)) => FusedOp::FlatMap(step),
            (None, Some(_)) => FusedOp::Function(step),
            (None, None) if matches!(step.node.op, Op::Enumerate(_)) => FusedOp::Number(step),
            (None, None) if matches!(step.node.op, Op::Mix(_)) => FusedOp::Mix(step),
            (None, None) if matches!(step.node.op, Op::Tokenize(_)) => FusedOp::Tokenize(step),
            (None, None) if matches!(step.node.op, Op::PaddedBatch(_)) && step.per_batch => FusedOp::Pad(step),
            (None, None) => FusedOp::Table(step),
        }
    }

    /// Returns whether it makes several rows of one.
    pub fn makes_rows(&self) -> bool {
        self.steps().iter().any(|step| step.node.op.class() == Class::Expand)
    }

    /// Returns its steps.
    pub fn steps(&self) -> &[Step] {
        match self {
            FusedOp::Image { steps, .. } => steps,
            FusedOp::Table(step)
            | FusedOp::Tokenize(step)
            | FusedOp::Function(step)
            | FusedOp::FlatMap(step)
            | FusedOp::Number(step)
            | FusedOp::Mix(step)
            | FusedOp::Pad(step) => std::slice::from_ref(step),
        }
    }
}

/// An op on the merged, ordered stream of one consumer.
#[derive(Debug, Clone)]
pub enum TailStep {
    /// Row ops.
    RowOps(FusedOp),
    /// Keeps the first rows only.
    Take(u64),
    /// Leaves out the first rows.
    Skip(u64),
    /// Keeps every `count`-th row, from `index`.
    Shard {
        /// The number of shards.
        count: u64,
        /// The shard, from 0.
        index: u64,
    },
    /// Packs token lists into rows of one length; later ops process these rows.
    Pack(Step),
    /// Makes batches of rows of about the same length; later ops process whole batches.
    Bucket(Step),
    /// Makes batches; later ops process whole batches.
    Batch(Batching),
}

/// How rows are grouped into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Rows in a batch.
    pub size: usize,
    /// Whether a short last batch is dropped.
    pub drop_remainder: bool,
}

/// A graph, divided by where its ops run.
#[derive(Debug, Clone)]
pub struct Stages {
    /// The graph as written.
    pub graph: Graph,
    /// The source, with only the needed columns.
    pub source: Source,
    /// If the source is several datasets: each of them, divided. They have order ops and ops inside splits alone.
    pub parts: Vec<Arc<Stages>>,
    /// The order in which its ops run.
    pub run_order: RunOrder,
    /// Whether the source's rows are counted before it is read.
    pub counted: bool,
    /// The order ops that the epoch plan applies.
    pub order: Vec<Step>,
    /// The ops that run inside a split.
    pub split: Vec<FusedOp>,
    /// The cache point, if the user wrote `cache()`.
    pub cached: Option<CachePoint>,
    /// The candidates of `autocache()`, in order; the first is the rows as read.
    pub candidates: Vec<CacheCandidate>,
    /// How the rows of a split are batched, if the plan aligns splits with batches.
    pub aligned: Option<Batching>,
    /// The rows of a unit, if the pipeline fixes them.
    pub unit: Option<usize>,
    /// The ops that run after the merge.
    pub tail: Vec<TailStep>,
    /// Whether the plan knows the number of rows of each consumer. Otherwise it is known only after a run.
    pub counts_known: bool,
    /// How many batches may wait for the consumer, if the user set it.
    pub prefetch: Option<usize>,
}

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
        Self::build(graph, is_counted(graph, parts), None)
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
                Op::Batch(batch) => {
                    let batching = Batching { size: batch.size, drop_remainder: batch.drop_remainder };
                    (batched, batches.rows) = (true, batch.size as u64);
                    stages.unit = Some(batch.size).filter(|_| in_plan);
                    match tolerant {
                        true => batches.late = Some(batching),
                        false if in_plan => stages.aligned = Some(batching),
                        false => stages.tail.push(TailStep::Batch(batching)),
                    }
                }
                Op::PaddedBatch(batch) => {
                    (batched, batches.rows) = (true, batch.size as u64);
                    row_ops += stages.pad(batch, &input, step, closed, in_plan).map_err(|e| node.blame(e))?;
                }
                Op::Pack(_) => {
                    exact = false;
                    stages.tail.push(TailStep::Pack(step));
                }
                Op::BucketByLength(_) => {
                    (exact, batched) = (false, true);
                    stages.tail.push(TailStep::Bucket(step));
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

    fn empty(graph: &Graph, run_order: RunOrder, counted: bool) -> Result<Self> {
        let source = graph.projected_source()?;
        let parts = match &source {
            Source::Combined(combined) => {
                let part = |part: &SourcePart| Self::build(&part.graph, true, None).map(Arc::new);
                combined.parts.iter().map(part).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
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
            tail: Vec::new(),
            counts_known: false,
            prefetch: None,
        })
    }

    /// Returns the op of the plan that numbers rows, by its place, and whether it numbers rows before all of them are
    /// made ([`Stages::fan_out`]).
    pub fn numbered(&self) -> Option<(usize, bool)> {
        let at = self.order.iter().position(|step| matches!(step.node.op, Op::Enumerate(_)))?;
        Some((self.order[at].place, self.order[at..].iter().any(|step| step.node.op.fan_out().is_some())))
    }

    /// Refuses an order op behind rows that were made of others and are not in the plan, because some may be skipped.
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

    /// Returns the last op of the plan that makes several rows of one, and how many rows such ops make in all of each row
    /// of the source.
    pub fn fan_out(&self) -> Option<(usize, u64)> {
        let made = self.order.iter().filter_map(|step| Some((step.place, step.node.op.fan_out()?)));
        made.reduce(|(_, all), (place, count)| (place, all.saturating_mul(count)))
    }

    /// Adds a part of a split: the plan divides rows before it shuffles them, or makes several of one.
    fn divide(&mut self, step: Step) {
        let is_shuffle = |step: &Step| matches!(step.node.op, Op::Shuffle(_) | Op::FlatMap(_));
        let at = self.order.iter().position(is_shuffle).unwrap_or(self.order.len());
        self.order.insert(at, step);
    }

    /// Adds a batch that pads rows of `input`: what it does to single rows, the batch, and what it does to each batch.
    /// Returns the number of steps inside splits.
    fn pad(
        &mut self,
        batch: &ops::PaddedBatch,
        input: &Schema,
        step: Step,
        closed: usize,
        in_plan: bool,
    ) -> Result<usize> {
        let before = self.split.len();
        let batching = Batching { size: batch.size, drop_remainder: batch.drop_remainder };
        self.unit = Some(batch.size).filter(|_| in_plan);
        // Single rows are cut, and fail, before they are grouped.
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

    /// Returns the ops inside splits: its own, and those of the datasets that are its source.
    pub(crate) fn all_ops(&self) -> Box<dyn Iterator<Item = &[FusedOp]> + '_> {
        Box::new(std::iter::once(&self.split[..]).chain(self.parts.iter().flat_map(|part| part.all_ops())))
    }

    /// Returns whether rows come in batches of about the same length.
    pub fn is_bucketed(&self) -> bool {
        self.tail.iter().any(|step| matches!(step, TailStep::Bucket(_)))
    }

    /// Returns the first op after which the plan does not know the number of rows.
    pub fn first_uncounted(&self) -> Option<&Arc<Node>> {
        self.graph.nodes().iter().find(|n| n.op.is_uncounted())
    }

    /// Returns the columns of a split's output.
    pub fn split_schema(&self) -> Result<Arc<Schema>> {
        match self.split.last().and_then(|w| w.steps().last()) {
            Some(step) => Ok(step.schema.clone()),
            None => Ok(Arc::new(self.source.schema()?)),
        }
    }

    /// Returns how rows are batched, in the plan or in the tail.
    pub fn batching(&self) -> Option<Batching> {
        let tail = self.tail.iter().find_map(|t| if let TailStep::Batch(b) = t { Some(*b) } else { None });
        self.aligned.or(tail)
    }

    /// Checks that splits may be merged in any order, with the same rows in another order.
    ///
    /// # Errors
    /// Invalid, with the op whose rows would depend on which split came first.
    pub fn check_any_order(&self) -> Result<()> {
        let is_of: fn(&Op) -> bool =
            match self.tail.iter().find(|step| !matches!(step, TailStep::RowOps(_) | TailStep::Batch(_))) {
                None | Some(TailStep::RowOps(_) | TailStep::Batch(_)) => return Ok(()),
                Some(TailStep::Take(_)) => |op| matches!(op, Op::Take(_)),
                Some(TailStep::Skip(_)) => |op| matches!(op, Op::Skip(_)),
                Some(TailStep::Shard { .. }) => |op| matches!(op, Op::Shard(_)),
                Some(TailStep::Pack(_)) => |op| matches!(op, Op::Pack(_)),
                Some(TailStep::Bucket(_)) => |op| matches!(op, Op::BucketByLength(_)),
            };
        let is_in_plan = |place: usize| self.order.iter().any(|step| step.place == place);
        let mut nodes = self.graph.nodes().iter().enumerate();
        let node = nodes.find(|(place, node)| is_of(&node.op) && !is_in_plan(*place)).map(|(_, node)| node);
        let name = node.map_or("an op", |node| node.op.name());
        let error = Error::invalid(format!("ordered=False, and what {name} gives depends on the order of rows"))
            .hint(format!("leave out ordered=False, or {name}; or save what it gives once (save), and read that"));
        Err(node.map_or(error.clone(), |node| node.blame(error)))
    }

    /// Returns whether the tail needs the sample ids of rows.
    pub fn tail_needs_ids(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Returns whether an op inside splits makes several rows of one, so that rows have parts.
    pub fn has_parts(&self) -> bool {
        self.split.iter().any(FusedOp::makes_rows)
    }
}

/// What is known of batches while a graph is divided.
#[derive(Default)]
struct Batches {
    /// The rows of a batch, behind one.
    rows: u64,
    /// A batch that is made as late as possible.
    late: Option<Batching>,
    /// What chooses rows for it.
    before_late: Vec<TailStep>,
}

impl Batches {
    /// Adds the batch that is made late, behind what chooses its rows.
    fn flush(&mut self, tail: &mut Vec<TailStep>) {
        if let Some(batching) = self.late.take() {
            tail.append(&mut self.before_late);
            tail.push(TailStep::Batch(batching));
        }
    }

    /// Adds `take` or `skip` of batches: of their rows, before they are put together.
    fn choose(&mut self, stages: &mut Stages, step: Step) {
        let step = over_rows(step, self.rows);
        let in_tail = match &step.node.op {
            Op::Take(op) => TailStep::Take(op.count),
            Op::Skip(op) => TailStep::Skip(op.count),
            _ => return,
        };
        match stages.tail.iter().position(|step| matches!(step, TailStep::Batch(_))) {
            Some(at) => stages.tail.insert(at, in_tail),
            None if self.late.is_some() => self.before_late.push(in_tail),
            None => stages.order.push(step),
        }
    }
}

/// Returns `take` or `skip` of batches as one of their rows.
fn over_rows(step: Step, rows: u64) -> Step {
    let op = match &step.node.op {
        Op::Take(op) => Op::Take(ops::Take { count: op.count.saturating_mul(rows) }),
        Op::Skip(op) => Op::Skip(ops::Skip { count: op.count.saturating_mul(rows) }),
        other => other.clone(),
    };
    Step { node: Arc::new(Node { op, ..(*step.node).clone() }), ..step }
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

/// Returns whether to count the rows of the source. Counting is free for some sources. It is needed if the plan has to
/// know the last row, or shards rows instead of whole files. It is worth a pass over the file if the ops on a line cost
/// far more than finding its end: all threads can then share a large file.
fn is_counted(graph: &Graph, parts: u64) -> bool {
    let in_plan = |op: &Op| {
        let place = graph.nodes().iter().position(|n| std::ptr::eq(&n.op, op)).unwrap_or(0);
        graph.nodes()[..place].iter().all(|n| !n.op.is_uncounted())
    };
    let facts = graph.source().facts();
    match facts.rows {
        RowsKnown::Never => false,
        RowsKnown::AtOnce | RowsKnown::ByIndex => true,
        RowsKnown::ByReading if window::lane_window_bytes(graph).is_some() => false,
        RowsKnown::ByReading if parts > 1 => true,
        // Cached rows are found by their row number.
        RowsKnown::ByReading if graph.nodes().iter().any(|n| n.op.is_cache_point()) => true,
        RowsKnown::ByReading => graph.nodes().iter().any(|n| match &n.op {
            Op::Shuffle(_) | Op::Repeat(_) | Op::SelectRows(_) | Op::Part(_) | Op::Enumerate(_) => true,
            Op::Tokenize(_) => facts.is_lines,
            op @ Op::Shard(_) => in_plan(op),
            _ => false,
        }),
    }
}

/// Adds a step where rows are at its place: inside splits, or behind the merge.
fn push_row_op(stages: &mut Stages, closed: usize, step: Step) {
    match stages.tail.is_empty() {
        true => push(&mut stages.split, closed, step),
        false => push_tail(&mut stages.tail, step),
    }
}

/// Adds a step; fuses it with the image op of the same column before it, unless that op is among the first `closed`.
fn push(fused_ops: &mut Vec<FusedOp>, closed: usize, step: Step) {
    let last = fused_ops[closed..].last_mut();
    if let (Some(FusedOp::Image { column, steps }), Some(next)) = (last, step.node.op.image_column())
        && column == next
        && !step.per_batch
        && moves_alike(steps, &step)
    {
        steps.push(step);
        return;
    }
    fused_ops.push(FusedOp::of(step));
}

/// Returns whether the same columns follow the image through a step and through those before it, if any do.
fn moves_alike(steps: &[Step], next: &Step) -> bool {
    let before = steps.iter().rev().find_map(|step| step.node.op.annotations());
    before.zip(next.node.op.annotations()).is_none_or(|(before, next)| before == next)
}

fn push_tail(tail: &mut Vec<TailStep>, step: Step) {
    if let (Some(TailStep::RowOps(FusedOp::Image { column, steps })), Some(next)) =
        (tail.last_mut(), step.node.op.image_column())
        && column == next
        && moves_alike(steps, &step)
    {
        steps.push(step);
        return;
    }
    tail.push(TailStep::RowOps(FusedOp::of(step)));
}
