//! A user's function that makes any number of rows of each row of a chunk.
//!
//! Invariant: the rows of one row are bounded in number and bytes, and whether they exceed a bound depends on that row
//! alone. The bound of a whole chunk ends the job, because no single row is the cause.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, Loss, Schema};
use forebay_plan::ops::FlatMap;
use forebay_plan::{Op, Step};

use crate::executable::environment::Environment;
use crate::ops::determinism_check::{DeterminismCheck, Made};
use crate::ops::functions::{Functions, MadeRows, Pickle, Randomness};
use crate::ops::slices::Slices;

/// A user's function, with all inputs of a call.
pub(crate) struct FlatMapOp {
    step: Step,
    op: FlatMap,
    pickle: Pickle,
    randomness: Option<Randomness>,
    functions: Arc<dyn Functions>,
    determinism: DeterminismCheck,
    slices: Slices,
}

impl FlatMapOp {
    pub(crate) fn new(step: &Step, seed: Seed, env: &Environment) -> Result<Self> {
        let Op::FlatMap(op) = &step.node.op else { return Err(Error::internal("an op that makes no rows")) };
        let function = &op.function;
        let pickle = Pickle { id: function.blob.clone(), bytes: env.blobs.get(&function.blob)? };
        let randomness = function.with_rng.then_some(Randomness { seed, random: step.random });
        let (functions, determinism, slices) = (env.functions.clone(), DeterminismCheck::default(), Slices::default());
        Ok(Self { step: step.clone(), op: op.clone(), pickle, randomness, functions, determinism, slices })
    }

    /// Returns the columns after it.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    /// Returns its place in the graph.
    pub(crate) fn place(&self) -> usize {
        self.step.place
    }

    pub(crate) fn run(&self, chunk: &Chunk) -> Result<Chunk> {
        self.call(chunk).map_err(|e| self.step.node.blame(e))
    }

    fn call(&self, chunk: &Chunk) -> Result<Chunk> {
        let input = match &self.op.function.reads {
            Some(columns) => chunk.project(columns)?,
            None => chunk.clone(),
        };
        let (function, schema, count) = (&self.op.function, self.schema(), self.op.count);
        let call =
            |input: &Chunk| self.functions.flat_map(function, &self.pickle, input, self.randomness, schema, count);
        let in_slice = |rows: Range<usize>| call(&input.slice(rows.start, rows.len()));
        let MadeRows { columns, counts } = self.slices.call(input.num_rows(), &in_slice)?;
        self.check_bytes(&input, &columns, &counts)?;
        let again = |input: &Chunk| Ok(call(input)?.columns);
        let warning =
            self.determinism.check(&input, Made { columns: &columns, counts: Some(&counts) }, schema, false, &again);
        let warning = warning.map(|loss| Loss { error: self.step.node.blame(loss.error), ..loss });
        Ok(chunk.expanded(schema.clone(), columns, &counts)?.with_losses(warning.into_iter().collect()))
    }

    /// Refuses a row whose rows have too many bytes.
    fn check_bytes(&self, input: &Chunk, columns: &[ArrayRef], counts: &[u32]) -> Result<()> {
        let bytes = |columns: &[ArrayRef]| {
            columns.iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum::<usize>()
        };
        if bytes(columns) <= FlatMap::BYTES_MAX {
            return Ok(());
        }
        let mut first = 0;
        for (row, &count) in counts.iter().enumerate() {
            let rows: Vec<ArrayRef> = columns.iter().map(|column| column.slice(first, count as usize)).collect();
            first += count as usize;
            MadeRows::check_bytes(bytes(&rows)).map_err(|e| {
                let told = Error::new(e.kind(), format!("{} {}", self.op.function.name, e.message()));
                let told = e.context().iter().fold(told, |told, (key, value)| told.with(key, value));
                told.with("sample", input.ids()[row].sample)
            })?;
        }
        Ok(())
    }
}
