//! The columns that a relaxed order may change: those of the ops that it moves, and columns that are computed from
//! them.
//!
//! All other columns have the same bits as in the order as written. So a check of a relaxed order can tell a mistake
//! from an allowed change.

use std::collections::BTreeSet;

use forebay_core::Result;
use forebay_data::Schema;

use super::Access;
use crate::ops::op::Op;
use crate::physical::stages::{FusedOp, Stages, Step};

impl Stages {
    /// Returns the output columns of a split that may have other bits than in the order as written; none where the
    /// order is exact.
    ///
    /// # Errors
    /// Any error of the source.
    pub fn changed_columns(&self) -> Result<BTreeSet<String>> {
        let moves = self.run_order.moves().iter();
        let relaxed: BTreeSet<usize> = moves.filter(|moved| !moved.is_exact).map(|moved| moved.op).collect();
        let (mut changed, source) = (BTreeSet::new(), self.source.schema()?);
        let mut input = &source;
        for step in self.split.iter().flat_map(FusedOp::steps) {
            changed = after(step, input, changed);
            // A relaxed move passes only ops of the same column.
            let moved = step.node.op.image_column().filter(|_| relaxed.contains(&step.place));
            changed.extend(moved.map(str::to_owned));
            input = &step.schema;
        }
        Ok(changed)
    }
}

/// Returns the columns that differ after an op, where the columns in `changed` differ before it.
fn after(step: &Step, input: &Schema, mut changed: BTreeSet<String>) -> BTreeSet<String> {
    let meets = |columns: &[String], changed: &BTreeSet<String>| columns.iter().any(|name| changed.contains(name));
    match &step.node.op {
        Op::Rename { columns } => {
            let to = |name: &String| columns.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to).clone();
            changed = changed.iter().map(to).collect();
        }
        // These ops change each column by itself.
        Op::Cast { .. } | Op::Mix { .. } => {}
        Op::Map { function, output, keep_others } => {
            let made = output.iter().map(|field| field.name.clone());
            let differs = function.reads.as_ref().map_or(!changed.is_empty(), |reads| meets(reads, &changed));
            changed.retain(|name| *keep_others && !output.iter().any(|field| field.name == *name));
            changed.extend(made.filter(|_| differs));
        }
        op => {
            if let Some(Access { reads, writes, .. }) = Access::of(op, input) {
                let differs = meets(&reads, &changed);
                changed.retain(|name| !writes.contains(name));
                changed.extend(writes.into_iter().filter(|_| differs));
            }
        }
    }
    changed.retain(|name| step.schema.position(name).is_some());
    changed
}
