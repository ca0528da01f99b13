//! The handling of batches while a graph is divided: a batch that the tail makes as late as possible, and `take` and
//! `skip` of whole batches.

use std::sync::Arc;

use crate::graph::Node;
use crate::ops::{self, Op};
use crate::physical::stages::Stages;
use crate::physical::steps::{Batching, Step, TailStep};

/// The batches of the part of a graph that is divided so far.
#[derive(Default)]
pub(super) struct Batches {
    /// The rows of a batch, after a `batch` op.
    pub(super) rows: u64,
    /// A batch that the tail makes as late as possible.
    pub(super) late: Option<Batching>,
    /// The steps that choose rows before that batch.
    before_late: Vec<TailStep>,
}

impl Batches {
    /// Adds the late batch to the tail, after the steps that choose its rows.
    pub(super) fn flush(&mut self, tail: &mut Vec<TailStep>) {
        if let Some(batching) = self.late.take() {
            tail.append(&mut self.before_late);
            tail.push(TailStep::Batch(batching));
        }
    }

    /// Adds `take` or `skip` of batches as an op on their rows, before the batch.
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

/// Converts `take` or `skip` of batches to the same op on rows.
fn over_rows(step: Step, rows: u64) -> Step {
    let op = match &step.node.op {
        Op::Take(op) => Op::Take(ops::Take { count: op.count.saturating_mul(rows) }),
        Op::Skip(op) => Op::Skip(ops::Skip { count: op.count.saturating_mul(rows) }),
        other => other.clone(),
    };
    Step { node: Arc::new(Node { op, ..(*step.node).clone() }), ..step }
}
