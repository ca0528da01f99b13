//! Which columns a relaxed order may change: those that its moves change, and what is made of them. All others have the same bits
//! as in the order as written, so whoever tries such an order can tell a mistake from what was asked for.

use std::collections::BTreeSet;

use forebay_core::Result;
use forebay_data::Schema;

use super::Access;
use crate::op::Op;
use crate::stages::{Stages, Step, Work};

impl Stages {
    /// Returns the columns of what a split gives that may have other bits than in the order as written; none where the order is
    /// exact.
    ///
    /// # Errors
    /// Whatever is wrong with the source.
    pub fn changed_columns(&self) -> Result<BTreeSet<String>> {
        let moves = self.run_order.moves().iter();
        let relaxed: BTreeSet<usize> = moves.filter(|moved| !moved.is_exact).map(|moved| moved.op).collect();
        let (mut touched, source) = (BTreeSet::new(), self.source.schema()?);
        let mut input = &source;
        for step in self.split.iter().flat_map(Work::steps) {
            touched = after(step, input, touched);
            // What it passed are ops of the same column: no other change of places is relaxed.
            let moved = step.node.op.image_column().filter(|_| relaxed.contains(&step.place));
            touched.extend(moved.map(str::to_owned));
            input = &step.schema;
        }
        Ok(touched)
    }
}

/// Returns which columns differ once an op has run where those in `touched` did before it.
fn after(step: &Step, input: &Schema, mut touched: BTreeSet<String>) -> BTreeSet<String> {
    let meets = |columns: &[String], touched: &BTreeSet<String>| columns.iter().any(|name| touched.contains(name));
    match &step.node.op {
        Op::Rename { columns } => {
            let to = |name: &String| columns.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to).clone();
            touched = touched.iter().map(to).collect();
        }
        // Each column by itself.
        Op::Cast { .. } | Op::Mix { .. } => {}
        Op::Map { function, output, keep_others } => {
            let made = output.iter().map(|field| field.name.clone());
            let differs = function.reads.as_ref().map_or(!touched.is_empty(), |reads| meets(reads, &touched));
            touched.retain(|name| *keep_others && !output.iter().any(|field| field.name == *name));
            touched.extend(made.filter(|_| differs));
        }
        op => {
            if let Some(Access { reads, writes, .. }) = Access::of(op, input) {
                let differs = meets(&reads, &touched);
                touched.retain(|name| !writes.contains(name));
                touched.extend(writes.into_iter().filter(|_| differs));
            }
        }
    }
    touched.retain(|name| step.schema.position(name).is_some());
    touched
}
