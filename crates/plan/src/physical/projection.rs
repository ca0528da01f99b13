//! Projection push-down: reads only the columns of a source that an op reads, a cache point keeps, or the pipeline
//! returns. So `drop` and `select` have the effect of `columns=`, wherever they are written.
//!
//! A pure function of the graph as written, so all workers and consumers of a job read the same columns. A column that
//! is not read cannot make a row fail. A cache point keeps all columns there, so its rows do not depend on later ops.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::graph::{Graph, Node};
use crate::ops::op::Op;
use crate::reorder::Access;
use crate::source::Source;

/// The assumed size of a column whose size is not fixed.
const UNKNOWN_BYTES: usize = 64 << 10;

impl Graph {
    /// Returns the source with only the columns that the pipeline needs, at least one.
    ///
    /// # Errors
    /// Any error of the graph.
    pub(crate) fn projected_source(&self) -> Result<Source> {
        let read = self.source().schema()?;
        let mut inputs = vec![read.clone()];
        for node in self.nodes() {
            let after = node.op.apply(&inputs[inputs.len() - 1]).map_err(|e| node.blame(e))?;
            inputs.push(after);
        }
        let output = inputs.pop().unwrap_or_default();
        let mut needed = names(&output);
        for (node, input) in self.nodes().iter().zip(&inputs).rev() {
            needed = before(&node.op, input, needed);
        }
        if needed.is_empty() {
            needed.extend(smallest(&read));
        }
        Ok(self.source().reading(&needed))
    }
}

impl Node {
    /// Returns the op restricted to the columns of `input`; `None` where it changes nothing there.
    pub(crate) fn over(self: &Arc<Self>, input: &Schema) -> Option<Arc<Self>> {
        let is_there = |name: &String| input.position(name).is_some();
        let there = |columns: &[String]| columns.iter().filter(|name| is_there(name)).cloned().collect::<Vec<_>>();
        let (op, nothing) = match &self.op {
            Op::Select { columns } => {
                let columns = there(columns);
                let nothing = columns.iter().eq(input.fields().iter().map(|field| &field.name));
                (Op::Select { columns }, nothing)
            }
            Op::Drop { columns } => {
                let columns = there(columns);
                (Op::Drop { columns: columns.clone() }, columns.is_empty())
            }
            Op::Rename { columns } => {
                let columns: Vec<_> = columns.iter().filter(|(from, _)| is_there(from)).cloned().collect();
                (Op::Rename { columns: columns.clone() }, columns.is_empty())
            }
            _ => return Some(self.clone()),
        };
        if nothing {
            return None;
        }
        Some(if op == self.op { self.clone() } else { Arc::new(Self { op, ..(**self).clone() }) })
    }
}

/// Returns the columns of `input` that an op needs so that the columns in `after` exist after it.
fn before(op: &Op, input: &Schema, after: BTreeSet<String>) -> BTreeSet<String> {
    let with = |columns: &[String]| {
        let others = after.iter().filter(|name| input.position(name).is_some());
        others.chain(columns).cloned().collect()
    };
    match op {
        Op::Rename { columns } => {
            let from = |name: &String| columns.iter().find(|(_, to)| to == name).map_or(name, |(from, _)| from).clone();
            after.iter().map(from).collect()
        }
        Op::Map { function, keep_others: false, .. } => match &function.reads {
            Some(reads) => reads.iter().cloned().collect(),
            None => names(input),
        },
        Op::Pack(pack) => [pack.column.clone()].into(),
        Op::BucketByLength(bucket) => with(std::slice::from_ref(&bucket.column)),
        Op::CheckFinite { columns } => with(columns),
        Op::Shuffle { .. }
        | Op::Repeat { .. }
        | Op::Take { .. }
        | Op::Skip { .. }
        | Op::Shard { .. }
        | Op::Batch { .. }
        | Op::Prefetch { .. } => after,
        op => Access::of(op, input).map_or_else(|| names(input), |access| with(&access.reads)),
    }
}

fn names(schema: &Schema) -> BTreeSet<String> {
    schema.fields().iter().map(|field| field.name.clone()).collect()
}

/// Returns the smallest column: rows without any column could not be counted.
fn smallest(schema: &Schema) -> Option<String> {
    let bytes = |field: &&forebay_data::Field| field.kind.row_bytes().unwrap_or(UNKNOWN_BYTES);
    schema.fields().iter().min_by_key(bytes).map(|field| field.name.clone())
}
