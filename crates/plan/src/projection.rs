//! Which columns of a source a pipeline needs: those that an op looks at, that are kept, or that come out at its end. No
//! others are read, so `drop` and `select` say the same as `columns=`, wherever they are written.
//!
//! A pure function of the graph as written, so that all workers and readers of a job read the same. A column that is not
//! needed can make no row fail. What is kept is all that there is at that place: it does not depend on what comes behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::graph::{Graph, Node};
use crate::op::Op;
use crate::reorder::Access;
use crate::source::Source;

/// A column whose size is not fixed is taken to be this large.
const UNKNOWN_BYTES: usize = 64 << 10;

impl Graph {
    /// Returns the source with the columns that are needed, at least one.
    ///
    /// # Errors
    /// Whatever is wrong with the graph.
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
    /// Returns the op over rows that have no columns but those of `input`; `None` where it does nothing to them.
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

/// Returns which columns of `input` are needed where those in `after` are, once the op is done.
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

/// Rows without a column would not be counted.
fn smallest(schema: &Schema) -> Option<String> {
    let bytes = |field: &&forebay_data::Field| field.kind.row_bytes().unwrap_or(UNKNOWN_BYTES);
    schema.fields().iter().min_by_key(bytes).map(|field| field.name.clone())
}
