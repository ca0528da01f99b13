//! The first rows of a pipeline, for trials: of a function whose columns are unknown, or of an order.

use std::sync::Arc;

use forebay_core::{Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory, Schema};
use forebay_exec::{Budget, Environment, Executable, LocalIteration, LocalOptions};
use forebay_plan::{Class, Expr, Graph, Node, OnError, Op, Reorder, Sharding, Stages, ops};

use crate::functions::PyFunctions;
use crate::pipeline::Pipeline;

/// The most failing samples that are skipped before the first rows.
const PROBE_LOST_MAX: u64 = 64;

impl Pipeline {
    /// Returns up to `rows` rows of the pipeline, in the order in which they are stored; and the executable that made
    /// them, which knows their names. Behind a batch they are one batch, padded where the pipeline pads; behind
    /// `batch_by_key`, the first batch of them.
    pub(crate) fn first_rows(
        &self,
        rows: usize,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<(Option<Chunk>, Arc<Executable>)> {
        // Whether a sample may fail is decided later, when the pipeline is iterated.
        let graph = Graph::new(self.graph.source().clone(), self.graph.site().cloned())?;
        let mut graph = graph.with_on_error(OnError::Skip).with_reorder(Reorder::Off);
        for node in self.graph.nodes() {
            let computes = matches!(node.op.class(), Class::RowWise | Class::Filter | Class::Expand | Class::Global);
            if let Op::Enumerate(op) = &node.op {
                let numbered = ops::WithColumn { column: op.column.clone(), value: Expr::Int { value: op.start } };
                graph = graph.then(Node { op: Op::WithColumn(numbered), ..(**node).clone() })?;
            }
            if let Some(batch) = one_batch(&node.op, rows, graph.schema()) {
                graph = graph.then(first(rows))?.then(Node { op: batch, ..(**node).clone() })?;
            }
            if computes && !node.op.is_cache_point() {
                graph = graph.then((**node).clone())?;
            }
        }
        let is_batched = graph.batch().is_some();
        let graph = if is_batched { graph } else { graph.then(first(rows))? };
        let functions = Arc::new(PyFunctions::default());
        let environment = Environment {
            blobs: Arc::new(self.blobs.clone()),
            functions,
            memory: Memory::default(),
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        let divided = (Stages::new(&graph)?, Sharding::from(1));
        let executable = self.prepare(divided, Seed(0), None, &environment, poll)?;
        let budget = Budget::Count(PROBE_LOST_MAX);
        let mut stream =
            LocalIteration::start(executable.clone(), LocalOptions { threads: 1, budget, ..LocalOptions::default() })?;
        let (mut chunks, mut found) = (Vec::new(), 0);
        let mut first_lost = None;
        while found < rows {
            let next = stream.next(poll).inspect_err(|_| self.listing.forget());
            first_lost = first_lost.or_else(|| stream.take_skipped().into_iter().next());
            let Some(delivery) = next.map_err(|e| first_lost.take().map_or(e, |lost| lost.loss.error))? else { break };
            found += delivery.chunk.num_rows();
            chunks.push(delivery.chunk);
            // Rows of another key may have another shape.
            if is_batched {
                break;
            }
        }
        match (chunks.is_empty(), first_lost) {
            (false, _) => Ok((Some(Chunk::concat(&chunks)?), executable)),
            (true, Some(lost)) => Err(lost.loss.error),
            (true, None) => Ok((None, executable)),
        }
    }
}

/// Keeps only the first rows.
fn first(rows: usize) -> Node {
    Node::new(Op::Take(ops::Take { count: rows as u64 }))
}

/// Returns the op that puts all rows of a trial into one batch, in place of one that makes batches. Lists that are stacked
/// may have other lengths in the next batch, so a trial pads them.
fn one_batch(op: &Op, rows: usize, schema: &Schema) -> Option<Op> {
    let all = ops::Batch { size: rows, drop_remainder: false };
    let padded = |padding| ops::PaddedBatch {
        size: rows,
        drop_remainder: false,
        padding: Some(padding),
        valid: None,
        ragged: Vec::new(),
    };
    match op {
        Op::Batch(_) if all.stacks(schema) => Some(Op::PaddedBatch(padded(ops::Padding::default()))),
        Op::Batch(_) => Some(Op::Batch(all)),
        Op::PaddedBatch(batch) => {
            let stacked = || all.stacks(schema).then(ops::Padding::default);
            let padding = batch.padding.clone().or_else(stacked);
            Some(Op::PaddedBatch(ops::PaddedBatch { size: rows, drop_remainder: false, padding, ..batch.clone() }))
        }
        Op::BucketByLength(bucket) => {
            let padding = ops::Padding { values: bucket.padding.clone(), ..ops::Padding::default() };
            Some(Op::PaddedBatch(padded(padding)))
        }
        Op::BatchByKey(batch) => {
            Some(Op::BatchByKey(ops::BatchByKey { size: rows, drop_remainder: false, ..batch.clone() }))
        }
        _ => None,
    }
}
