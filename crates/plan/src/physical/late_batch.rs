//! Batches while a graph is divided: a batch that is made as late as possible, and `take` and `skip` of whole batches.

use std::sync::Arc;

use crate::graph::Node;
use crate::ops::{self, Op};
use crate::physical::stages::Stages;
use crate::physical::steps::{Batching, Step, TailStep};

/// The batches of a graph, as far as it is divided.
#[derive(Default)]
pub(super) struct Batches {
    /// The rows of a batch, behind one.
    pub(super) rows: u64,
    /// A batch that is made as late as possible.
    pub(super) late: Option<Batching>,
    /// What chooses rows for it.
    before_late: Vec<TailStep>,
}

impl Batches {
    /// Adds the batch that is made late, behind what chooses its rows.
    pub(super) fn flush(&mut self, tail: &mut Vec<TailStep>) {
        if let Some(batching) = self.late.take() {
            tail.append(&mut self.before_late);
            tail.push(TailStep::Batch(batching));
        }
    }

    /// Adds `take` or `skip` of batches: of their rows, before they are put together.
    pub(super) fn choose(&mut self, stages: &mut Stages, step: Step) {
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
