//! A graph divided into the ops of the epoch plan, the ops inside a split, and the ops after the merge (the tail).
//! `divide` makes it.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Schema;

use crate::graph::{Graph, Node};
use crate::ops::Op;
use crate::physical::cache_point::{CacheCandidate, CachePoint};
use crate::physical::steps::{Batching, FusedOp, Step, TailStep};
use crate::reorder::RunOrder;
use crate::source::Source;

/// A graph, divided by where its ops run.
#[derive(Debug, Clone)]
pub struct Stages {
    /// The graph as written.
    pub graph: Graph,
    /// The source, with only the needed columns.
    pub source: Source,
    /// The stages of each dataset, if the source is several datasets. They have only order ops and ops inside splits,
    /// except the stages of a mix that is merged in the tail.
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
    /// Returns the op of the plan that numbers rows, by its place, and whether it numbers rows before all of them are
    /// made ([`Stages::fan_out`]).
    pub fn numbered(&self) -> Option<(usize, bool)> {
        let at = self.order.iter().position(|step| matches!(step.node.op, Op::Enumerate(_)))?;
        Some((self.order[at].place, self.order[at..].iter().any(|step| step.node.op.fan_out().is_some())))
    }

    /// Returns the last op of the plan that makes several rows of one, and how many rows such ops make in all of each row
    /// of the source.
    pub fn fan_out(&self) -> Option<(usize, u64)> {
        let made = self.order.iter().filter_map(|step| Some((step.place, step.node.op.fan_out()?)));
        made.reduce(|(_, all), (place, count)| (place, all.saturating_mul(count)))
    }

    /// Returns the ops inside splits: its own ops, and the ops of the datasets that are its source.
    pub(crate) fn all_ops(&self) -> Box<dyn Iterator<Item = &[FusedOp]> + '_> {
        Box::new(std::iter::once(&self.split[..]).chain(self.parts.iter().flat_map(|part| part.all_ops())))
    }

    /// Returns whether rows come in batches of about the same length, or of one key.
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
                Some(TailStep::Mix) => {
                    let error = Error::invalid("ordered=False, and what a mix gives depends on the order of rows");
                    return Err(self.graph.blame_source(error.hint("leave out ordered=False")));
                }
                Some(TailStep::Take(_)) => |op| matches!(op, Op::Take(_)),
                Some(TailStep::Skip(_)) => |op| matches!(op, Op::Skip(_)),
                Some(TailStep::Shard { .. }) => |op| matches!(op, Op::Shard(_)),
                Some(TailStep::Pack(_)) => |op| matches!(op, Op::Pack(_)),
                Some(TailStep::Bucket(_)) => |op| matches!(op, Op::BucketByLength(_) | Op::BatchByKey(_)),
            };
        let is_in_plan = |place: usize| self.order.iter().any(|step| step.place == place);
        let mut nodes = self.graph.nodes().iter().enumerate();
        let node = nodes.find(|(place, node)| is_of(&node.op) && !is_in_plan(*place)).map(|(_, node)| node);
        let name = node.map_or("an op", |node| node.op.name());
        let error = Error::invalid(format!("ordered=False, and what {name} gives depends on the order of rows"))
            .hint(format!("leave out ordered=False, or {name}; or save what it gives once (save), and read that"));
        Err(node.map_or(error.clone(), |node| node.blame(error)))
    }

    /// Returns whether the tail, or that of the mix that it is a part of, needs the sample ids of rows.
    pub fn tail_needs_ids(&self) -> bool {
        !self.tail.is_empty() || self.graph.keeps_ids()
    }

    /// Returns whether an op inside splits makes several rows of one, so that rows have parts.
    pub fn has_parts(&self) -> bool {
        self.split.iter().any(FusedOp::makes_rows)
    }
}
