//! The columns that a relaxed order may change: the columns of the ops that it moves, and columns computed from them.
//!
//! All other columns have the same bits as in the order as written. So a check of a relaxed order can tell a mistake
//! from an allowed change.

use std::collections::BTreeSet;

use forebay_core::Result;

use crate::physical::stages::Stages;
use crate::physical::steps::FusedOp;

impl Stages {
    /// Returns the output columns of a split that may have other bits than in the order as written; none if the order
    /// is exact.
    ///
    /// # Errors
    /// Any error of the source.
    pub fn changed_columns(&self) -> Result<BTreeSet<String>> {
        let moves = self.run_order.moves().iter();
        let relaxed: BTreeSet<usize> = moves.filter(|moved| !moved.is_exact).map(|moved| moved.op).collect();
        let (mut changed, source) = (BTreeSet::new(), self.source.schema()?);
        let mut input = &source;
        for step in self.split.iter().flat_map(FusedOp::steps) {
            changed = step.node.op.spec().changed_after(input, changed);
            changed.retain(|name| step.schema.position(name).is_some());
            // A relaxed move goes only past ops of the same column.
            let moved = step.node.op.image_column().filter(|_| relaxed.contains(&step.place));
            changed.extend(moved.map(str::to_owned));
            input = &step.schema;
        }
        Ok(changed)
    }
}
