//! The ops of the tail that see rows as they come, in order, before they are put into batches.

use arrow_array::BooleanArray;
use forebay_core::Result;
use forebay_data::Chunk;

use crate::executable::Executable;
use crate::isolate::Isolation;
use crate::work::{Compiled, Scratch};

/// An op on rows as they come.
pub(crate) enum Passing {
    Work(Box<Compiled>),
    Take(u64),
    Skip(u64),
    Shard { count: u64, index: u64 },
}

/// Ops on rows as they come, with what each has counted: rows that it saw this epoch.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) steps: Vec<Passing>,
    pub(crate) counters: Vec<u64>,
}

impl Chain {
    /// Goes on from saved counters; those that were not saved are 0.
    pub(crate) fn count_from(&mut self, counters: &[u64]) {
        self.counters = counters.to_vec();
        self.counters.resize(self.steps.len(), 0);
    }

    pub(crate) fn counts(&self) -> bool {
        self.steps.iter().any(|s| !matches!(s, Passing::Work(_)))
    }

    /// Says whether a `take` has all its rows.
    pub(crate) fn is_full(&self) -> bool {
        self.steps.iter().zip(&self.counters).any(|(s, seen)| matches!(s, Passing::Take(n) if seen >= n))
    }

    /// Runs the steps. `isolation` says what becomes of rows that fail.
    pub(crate) fn run(
        &mut self,
        mut chunk: Chunk,
        executable: &Executable,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        for (step, seen) in self.steps.iter().zip(&mut self.counters) {
            let rows = chunk.num_rows() as u64;
            let first = *seen;
            match step {
                Passing::Work(work) => {
                    let ran = isolation.run(&chunk, &mut |chunk| work.run(chunk, None, scratch));
                    chunk = ran.map_err(|e| executable.locate(e))?;
                    continue;
                }
                Passing::Take(n) => chunk = chunk.slice(0, rows.min(n.saturating_sub(first)) as usize),
                Passing::Skip(n) => {
                    let gone = rows.min(n.saturating_sub(first));
                    chunk = chunk.slice(gone as usize, (rows - gone) as usize);
                }
                Passing::Shard { count, index } => {
                    let keep: BooleanArray = (first..first + rows).map(|i| Some(i % count == *index)).collect();
                    chunk = chunk.filter(&keep)?;
                }
            }
            *seen += rows;
        }
        Ok(chunk)
    }
}
