//! The ops of the tail that see single rows in order, before rows are grouped into batches.

use arrow_array::BooleanArray;
use forebay_core::Result;
use forebay_data::Chunk;

use crate::executable::Executable;
use crate::ops::compiled_op::CompiledOp;
use crate::ops::scratch::Scratch;
use crate::skip::isolation::Isolation;

/// An op on single rows in order.
pub(crate) enum StreamOp {
    Row(Box<CompiledOp>),
    Take(u64),
    Skip(u64),
    Shard { count: u64, index: u64 },
}

/// Ops on single rows in order, with the number of rows that each has seen in this epoch.
#[derive(Default)]
pub(crate) struct StreamChain {
    pub(crate) steps: Vec<StreamOp>,
    pub(crate) counters: Vec<u64>,
    /// Whether a `take` or a `skip` that had not seen all its rows has seen one in the last run.
    pub(crate) has_counted: bool,
}

impl StreamChain {
    /// Continues from saved counters; counters that were not saved are 0.
    pub(crate) fn count_from(&mut self, counters: &[u64]) {
        self.counters = counters.to_vec();
        self.counters.resize(self.steps.len(), 0);
    }

    pub(crate) fn counts(&self) -> bool {
        self.steps.iter().any(|s| !matches!(s, StreamOp::Row(_)))
    }

    /// Says whether a `take` has all its rows.
    pub(crate) fn is_full(&self) -> bool {
        self.steps.iter().zip(&self.counters).any(|(s, seen)| matches!(s, StreamOp::Take(n) if seen >= n))
    }

    /// Runs the steps. `isolation` decides what happens to rows that fail.
    pub(crate) fn run(
        &mut self,
        mut chunk: Chunk,
        executable: &Executable,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        self.has_counted = false;
        for (step, seen) in self.steps.iter().zip(&mut self.counters) {
            let rows = chunk.num_rows() as u64;
            let first = *seen;
            self.has_counted |= rows > 0 && matches!(step, StreamOp::Take(n) | StreamOp::Skip(n) if first < *n);
            match step {
                StreamOp::Row(op) => {
                    let ran = isolation.run(&chunk, &mut |chunk| op.run(chunk, None, scratch));
                    chunk = ran.map_err(|e| executable.locate(e))?;
                    continue;
                }
                StreamOp::Take(n) => chunk = chunk.slice(0, rows.min(n.saturating_sub(first)) as usize),
                StreamOp::Skip(n) => {
                    let gone = rows.min(n.saturating_sub(first));
                    chunk = chunk.slice(gone as usize, (rows - gone) as usize);
                }
                StreamOp::Shard { count, index } => {
                    let keep: BooleanArray = (first..first + rows).map(|i| Some(i % count == *index)).collect();
                    chunk = chunk.filter(&keep)?;
                }
            }
            *seen += rows;
        }
        Ok(chunk)
    }
}
