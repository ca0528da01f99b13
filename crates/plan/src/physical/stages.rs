//! Where each op runs: in the epoch plan, inside a split, or once after the merge.
//!
//! The rule: order ops move to the epoch plan as long as the number of rows is known; from the first op that needs
//! the merged stream (`take` after a filter, `pack`, `bucket_by_length`, `batch` over an unknown count) on, everything is tail. Row ops of one
//! image column are fused into one piece of work, which decodes only what it needs and writes its result once.
//!
//! Where samples that fail are left out, no count is known once rows have been read: batches are made after the merge,
//! as behind a filter. They are made as late as possible, just before the first op that sees a whole batch, so that row
//! ops written behind `batch` still run inside splits and lose rows before batches are counted. Order ops stay where they
//! are: they choose among samples before any has failed. Units are as long as a batch, as if the plan aligned them, so
//! that every consumer gets the same rows as when nothing may be left out.
//!
//! Row ops come in the order in which they run ([`RunOrder`]), which moves none past an op of another kind.
//!
//! Of the source's columns those are read that are needed ([`Stages::source`]); ops that only name others have nothing to do.
//!
//! Where there is a `cache()`, what is before it is the prefix of a split: nothing is fused across its end. Where there is an
//! `autocache()`, everything is fused as if it were not there, and [`Stages::with_cache_at`] gives the same stages with one of its places
//! kept: whichever is run, the rows are the same.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Schema;

use crate::epoch::window;
use crate::graph::{Graph, Node};
use crate::ops::op::Op;
use crate::physical::cache_point::{self, CacheCandidate, CachePoint};
use crate::reorder::RunOrder;
use crate::source::Source;

/// One op where it runs.
#[derive(Debug, Clone)]
pub struct Step {
    /// The op as written, over the columns that were read.
    pub node: Arc<Node>,
    /// Its place among all ops as written.
    pub place: usize,
    /// Its number among the random ops as written: names its random stream, wherever it runs.
    pub random: u64,
    /// The columns after it.
    pub schema: Arc<Schema>,
    /// Whether it is called once for each batch.
    pub per_batch: bool,
}

/// A piece of work that a thread does in one go.
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
    /// Text to token ids.
    Tokenize(Step),
    /// A user's Python function.
    Function(Step),
    /// Samples mixed within their batch.
    Mix(Step),
}

impl FusedOp {
    /// Returns the work of one op by itself.
    pub fn of(step: Step) -> Self {
        match (step.node.op.image_column(), step.node.op.function()) {
            (Some(column), _) => FusedOp::Image { column: column.to_owned(), steps: vec![step] },
            (None, Some(_)) => FusedOp::Function(step),
            (None, None) if matches!(step.node.op, Op::Mix { .. }) => FusedOp::Mix(step),
            (None, None) if matches!(step.node.op, Op::Tokenize(_)) => FusedOp::Tokenize(step),
            (None, None) => FusedOp::Table(step),
        }
    }

    /// Returns the ops in it.
    pub fn steps(&self) -> &[Step] {
        match self {
            FusedOp::Image { steps, .. } => steps,
            FusedOp::Table(step) | FusedOp::Tokenize(step) | FusedOp::Function(step) | FusedOp::Mix(step) => {
                std::slice::from_ref(step)
            }
        }
    }
}

/// An op on the merged, ordered stream of one consumer.
#[derive(Debug, Clone)]
pub enum TailStep {
    /// Row ops.
    RowOps(FusedOp),
    /// The first rows only.
    Take(u64),
    /// All but the first rows.
    Skip(u64),
    /// Every `count`-th row, from `index`.
    Shard {
        /// Of how many.
        count: u64,
        /// Which one.
        index: u64,
    },
    /// Token lists to rows of one length; what follows sees those.
    Pack(Step),
    /// Rows of about the same length together; what follows sees whole batches.
    Bucket(Step),
    /// Rows together; what follows sees whole batches.
    Batch(Batching),
}

/// How rows are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Rows in a batch.
    pub size: usize,
    /// Whether a short last batch is left out.
    pub drop_remainder: bool,
}

/// A graph, divided by where its ops run.
#[derive(Debug, Clone)]
pub struct Stages {
    /// The graph as written.
    pub graph: Graph,
    /// What is read: its source, with the columns that are needed.
    pub source: Source,
    /// The order in which its ops run.
    pub run_order: RunOrder,
    /// Whether the source's rows are counted before it is read.
    pub counted: bool,
    /// Order ops that the epoch plan does.
    pub order: Vec<Step>,
    /// What runs inside a split.
    pub split: Vec<FusedOp>,
    /// Which of that is kept, if the user said so.
    pub cached: Option<CachePoint>,
    /// The places that `autocache()` may keep, in order; the rows as they are read are the first.
    pub candidates: Vec<CacheCandidate>,
    /// How the rows of a split go into batches, when the plan aligns splits with batches.
    pub aligned: Option<Batching>,
    /// The rows of a unit, where the pipeline has an opinion.
    pub unit: Option<usize>,
    /// What runs after the merge.
    pub tail: Vec<TailStep>,
    /// Whether the plan knows every count, so that what it deals is what consumers get. Else how much one gets shows only
    /// when it runs.
    pub counts_known: bool,
    /// How many batches may wait for the consumer, if the user said.
    pub prefetch: Option<usize>,
}

impl Stages {
    /// Divides a graph.
    ///
    /// # Errors
    /// Invalid when the ops do not go together in this order.
    pub fn new(graph: &Graph) -> Result<Self> {
        Self::in_parts(graph, 1)
    }

    /// Divides a graph whose rows are dealt in so many parts ([`Sharding::parts`](crate::Sharding::parts)).
    ///
    /// # Errors
    /// As [`Stages::new`].
    pub fn in_parts(graph: &Graph, parts: u64) -> Result<Self> {
        Self::build(graph, is_counted(graph, parts), None)
    }

    /// Divides a graph; nothing is fused across the place that has so many row ops before it.
    pub(crate) fn build(graph: &Graph, counted: bool, kept: Option<usize>) -> Result<Self> {
        let run_order = RunOrder::of(graph)?;
        let places = run_order.places().to_vec();
        let mut stages = Self {
            graph: graph.clone(),
            source: graph.projected_source()?,
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
        };
        let mut exact = counted;
        let streams = streams(graph);
        let mut batched = false;
        // A batch that waits to be made as late as possible.
        let mut late = None;
        // Works that nothing is fused with any more, and row ops so far.
        let (mut closed, mut row_ops) = (0, 0);
        // The first op of the tail.
        let mut merged = None;
        let tolerant = graph.on_error().is_tolerant();
        let mut schema = stages.source.schema()?;
        for place in places {
            let (Some(node), random) = (graph.nodes()[place].over(&schema), streams[place]) else { continue };
            schema = node.op.apply(&schema).map_err(|e| node.blame(e))?;
            let per_batch = batched && matches!(node.op, Op::Map { .. } | Op::Mix { .. });
            let step = Step { node: node.clone(), place, random, schema: Arc::new(schema.clone()), per_batch };
            let in_plan = stages.tail.is_empty() && exact;
            if per_batch {
                stages.tail.extend(late.take().map(TailStep::Batch));
            }
            match &node.op {
                Op::Prefetch { count } => stages.prefetch = Some(*count),
                Op::Autocache {} => {
                    cache_point::check(&stages, place, &node.op, merged.as_ref()).map_err(|e| node.blame(e))?;
                    cache_point::mark(&mut stages, row_ops);
                }
                Op::Cache { freeze } => {
                    cache_point::check(&stages, place, &node.op, merged.as_ref()).map_err(|e| node.blame(e))?;
                    let (fused_ops, schema) = (stages.split.len(), step.schema.clone());
                    closed = fused_ops;
                    stages.cached = Some(CachePoint { fused_ops, freeze: *freeze, schema });
                }
                Op::Shuffle { .. } | Op::Repeat { .. } => stages.order.push(step),
                Op::Take { .. } | Op::Skip { .. } | Op::Shard { .. } if in_plan => stages.order.push(step),
                Op::Take { count } => stages.tail.push(TailStep::Take(*count)),
                Op::Skip { count } => stages.tail.push(TailStep::Skip(*count)),
                Op::Shard { count, index } => stages.tail.push(TailStep::Shard { count: *count, index: *index }),
                Op::Batch { size, drop_remainder } => {
                    let batching = Batching { size: *size, drop_remainder: *drop_remainder };
                    batched = true;
                    stages.unit = Some(*size).filter(|_| in_plan);
                    match tolerant {
                        true => late = Some(batching),
                        false if in_plan => stages.aligned = Some(batching),
                        false => stages.tail.push(TailStep::Batch(batching)),
                    }
                }
                Op::Pack(_) => {
                    exact = false;
                    stages.tail.push(TailStep::Pack(step));
                }
                Op::BucketByLength(_) => {
                    (exact, batched) = (false, true);
                    stages.tail.push(TailStep::Bucket(step));
                }
                _ => {
                    check_random_groups(&node, &step, batched)?;
                    exact &= !node.op.is_uncounted();
                    if stages.tail.is_empty() {
                        if kept == Some(row_ops) {
                            closed = stages.split.len();
                        }
                        row_ops += 1;
                        push(&mut stages.split, closed, step);
                    } else {
                        push_tail(&mut stages.tail, step);
                    }
                }
            }
            merged = merged.or((!stages.tail.is_empty()).then_some(node));
        }
        stages.tail.extend(late.map(TailStep::Batch));
        stages.counts_known = exact;
        Ok(stages)
    }

    /// Says whether rows come in batches of about the same length.
    pub fn is_bucketed(&self) -> bool {
        self.tail.iter().any(|step| matches!(step, TailStep::Bucket(_)))
    }

    /// Returns the first op after which the plan does not know how many rows there are.
    pub fn first_uncounted(&self) -> Option<&Arc<Node>> {
        self.graph.nodes().iter().find(|n| n.op.is_uncounted())
    }

    /// Returns the columns of what a split gives.
    pub fn split_schema(&self) -> Result<Arc<Schema>> {
        match self.split.last().and_then(|w| w.steps().last()) {
            Some(step) => Ok(step.schema.clone()),
            None => Ok(Arc::new(self.source.schema()?)),
        }
    }

    /// Returns how rows go into batches in the end, wherever that happens.
    pub fn batching(&self) -> Option<Batching> {
        let tail = self.tail.iter().find_map(|t| if let TailStep::Batch(b) = t { Some(*b) } else { None });
        self.aligned.or(tail)
    }

    /// Says whether splits may be merged as they come: whether that gives the same rows, only in another order.
    ///
    /// # Errors
    /// Invalid, naming the op whose rows would depend on which split came first.
    pub fn check_any_order(&self) -> Result<()> {
        let is_of: fn(&Op) -> bool =
            match self.tail.iter().find(|step| !matches!(step, TailStep::RowOps(_) | TailStep::Batch(_))) {
                None | Some(TailStep::RowOps(_) | TailStep::Batch(_)) => return Ok(()),
                Some(TailStep::Take(_)) => |op| matches!(op, Op::Take { .. }),
                Some(TailStep::Skip(_)) => |op| matches!(op, Op::Skip { .. }),
                Some(TailStep::Shard { .. }) => |op| matches!(op, Op::Shard { .. }),
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

    /// Says whether the tail has to know which sample each row is.
    pub fn tail_needs_ids(&self) -> bool {
        !self.tail.is_empty()
    }
}

/// Returns, for each op as written, how many random ones are before it: the number of its random stream.
fn streams(graph: &Graph) -> Vec<u64> {
    let number = |next: &mut u64, node: &Arc<Node>| {
        *next += u64::from(node.op.is_random());
        Some(*next - u64::from(node.op.is_random()))
    };
    graph.nodes().iter().scan(0, number).collect()
}

/// A group of rows that only the engine chose must not decide random numbers.
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

/// Counting is free for some sources, and needed where the plan has to know the last place, or deals rows and not whole files.
/// It is worth a pass over the file where the work on each line is far more than finding its end: a large file is then shared
/// by all threads.
fn is_counted(graph: &Graph, parts: u64) -> bool {
    let in_plan = |op: &Op| {
        let place = graph.nodes().iter().position(|n| std::ptr::eq(&n.op, op)).unwrap_or(0);
        graph.nodes()[..place].iter().all(|n| !n.op.is_uncounted())
    };
    match graph.source() {
        Source::Generator { .. } => false,
        _ if window::lane_window_bytes(graph).is_some() => false,
        _ if parts > 1 => true,
        // What is kept of a row is found by the row's place.
        _ if graph.nodes().iter().any(|n| n.op.is_cache_point()) => true,
        source @ (Source::Tar { .. } | Source::Tfrecord { .. } | Source::Text { .. } | Source::Jsonl { .. }) => {
            graph.nodes().iter().any(|n| match &n.op {
                Op::Shuffle { .. } | Op::Repeat { .. } => true,
                Op::Tokenize(_) => matches!(source, Source::Text { .. } | Source::Jsonl { .. }),
                op @ Op::Shard { .. } => in_plan(op),
                _ => false,
            })
        }
        _ => true,
    }
}

/// Adds a step, fusing it with an image step of the same column before it, unless that is one of the first `closed` works.
fn push(fused_ops: &mut Vec<FusedOp>, closed: usize, step: Step) {
    let last = fused_ops[closed..].last_mut();
    if let (Some(FusedOp::Image { column, steps }), Some(next)) = (last, step.node.op.image_column())
        && column == next
        && !step.per_batch
    {
        steps.push(step);
        return;
    }
    fused_ops.push(FusedOp::of(step));
}

fn push_tail(tail: &mut Vec<TailStep>, step: Step) {
    if let (Some(TailStep::RowOps(FusedOp::Image { column, steps })), Some(next)) =
        (tail.last_mut(), step.node.op.image_column())
        && column == next
    {
        steps.push(step);
        return;
    }
    tail.push(TailStep::RowOps(FusedOp::of(step)));
}
