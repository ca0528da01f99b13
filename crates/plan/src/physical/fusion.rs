//! Adds ops inside splits and after the merge, and fuses consecutive ops on one image column.

use crate::physical::stages::Stages;
use crate::physical::steps::{FusedOp, Step, TailStep};

/// Adds a step inside splits, or after the merge if the tail has begun.
pub(super) fn push_row_op(stages: &mut Stages, closed: usize, step: Step) {
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

/// Returns whether the same columns, or none, follow the image through a step and through the steps before it.
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
