//! Projection push-down: reads only the columns of a source that an op reads, a cache point keeps, or the pipeline
//! returns. So `drop` and `select` have the effect of `columns=`, wherever they are written.
//!
//! A pure function of the graph as written, so all workers and consumers of a job read the same columns. A column that
//! is not read cannot make a row fail. A cache point keeps all columns there, so its rows do not depend on later ops.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::graph::{Graph, Node};
use crate::ops::names;
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
            needed = node.op.spec().needs(input, needed);
        }
        if needed.is_empty() {
            needed.extend(smallest(&read));
        }
        Ok(self.source().reading(&needed))
    }
}

impl Node {
    /// Returns the op restricted to the columns of `input`; `None` if it changes nothing there.
    pub(crate) fn over(self: &Arc<Self>, input: &Schema) -> Option<Arc<Self>> {
        let mut op = self.op.clone();
        if !op.spec_mut().restrict(input) {
            return None;
        }
        Some(if op == self.op { self.clone() } else { Arc::new(Self { op, ..(**self).clone() }) })
    }
}

/// Returns the smallest column: rows without any column could not be counted.
fn smallest(schema: &Schema) -> Option<String> {
    let bytes = |field: &&forebay_data::Field| field.kind.row_bytes().unwrap_or(UNKNOWN_BYTES);
    schema.fields().iter().min_by_key(bytes).map(|field| field.name.clone())
}
