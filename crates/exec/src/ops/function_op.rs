//! A user's function over the rows of a chunk.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, Loss, Schema};
use forebay_plan::{Function, Op, Step};

use crate::executable::environment::Environment;
use crate::ops::batches::each_batch;
use crate::ops::determinism_check::{DeterminismCheck, Made};
use crate::ops::functions::{Functions, Pickle, Randomness};
use crate::ops::slices::{Joined, Slices};

/// A user's function, with all inputs of a call.
pub(crate) struct FunctionOp {
    step: Step,
    function: Function,
    pickle: Pickle,
    randomness: Option<Randomness>,
    functions: Arc<dyn Functions>,
    /// The columns that it writes; `None` for a filter.
    output: Option<Arc<Schema>>,
    keep_others: bool,
    determinism: DeterminismCheck,
    slices: Slices,
}

impl FunctionOp {
    pub(crate) fn new(step: &Step, seed: Seed, env: &Environment) -> Result<Self> {
        let (output, keep_others) = match &step.node.op {
            Op::Map(map) => (Some(Arc::new(Schema::new(map.output.clone())?)), map.keep_others),
            _ => (None, true),
        };
        let function = step.node.op.function().ok_or_else(|| Error::internal("no function"))?.clone();
        let pickle = Pickle { id: function.blob.clone(), bytes: env.blobs.get(&function.blob)? };
        let randomness = function.with_rng.then_some(Randomness { seed, random: step.random });
        let functions = env.functions.clone();
        Ok(Self {
            step: step.clone(),
            function,
            pickle,
            randomness,
            functions,
            output,
            keep_others,
            determinism: DeterminismCheck::default(),
            slices: Slices::default(),
        })
    }

    /// Returns the columns after it.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    /// Runs it; `batch` is the batch size for a per-batch function.
    pub(crate) fn run(&self, chunk: &Chunk, batch: Option<usize>) -> Result<Chunk> {
        let ran = each_batch(chunk, batch.filter(|_| self.step.per_batch), |batch| self.call(batch));
        ran.map_err(|e| self.step.node.blame(e))
    }

    fn call(&self, chunk: &Chunk) -> Result<Chunk> {
        if chunk.num_rows() == 0 && self.output.is_none() {
            return Ok(chunk.clone());
        }
        let input = match &self.function.reads {
            Some(columns) => chunk.project(columns)?,
            None => chunk.clone(),
        };
        let function = self.effective();
        let made = |columns| Made { columns, counts: None };
        let Some(output) = &self.output else {
            let filter = |input: &Chunk| self.functions.filter(&function, &self.pickle, input, self.randomness);
            let keep = self.in_slices(&function, &input, &filter)?;
            let verdict: ArrayRef = Arc::new(keep.clone());
            let again = |input: &Chunk| Ok::<Vec<ArrayRef>, Error>(vec![Arc::new(filter(input)?)]);
            let warning =
                self.determinism.check(&input, made(&[verdict]), &Schema::default(), function.batched, &again);
            return Ok(self.warned(chunk.filter(&keep)?, warning));
        };
        let map = |input: &Chunk| self.functions.map(&function, &self.pickle, input, self.randomness, output);
        let columns = self.in_slices(&function, &input, &map)?;
        let warning = self.determinism.check(&input, made(&columns), output, function.batched, &map);
        let mapped = if self.keep_others {
            output.fields().iter().zip(columns).try_fold(chunk.clone(), |c, (f, col)| c.with_column(f.clone(), col))?
        } else {
            chunk.with_columns(output.clone(), columns)?
        };
        Ok(self.warned(mapped, warning))
    }

    /// Calls a function that sees one row at a time in slices, and any other once.
    fn in_slices<T: Joined>(
        &self,
        function: &Function,
        input: &Chunk,
        call: &dyn Fn(&Chunk) -> Result<T>,
    ) -> Result<T> {
        if function.batched {
            return call(input);
        }
        self.slices.call(input.num_rows(), &|rows| call(&input.slice(rows.start, rows.len())))
    }

    /// Attaches a warning to the chunk of its row.
    fn warned(&self, chunk: Chunk, warning: Option<Loss>) -> Chunk {
        let warning = warning.map(|loss| Loss { error: self.step.node.blame(loss.error), ..loss });
        chunk.with_losses(warning.into_iter().collect())
    }

    /// Returns the function as it is called: after `batch`, every function receives columns.
    fn effective(&self) -> Function {
        Function { batched: self.function.batched || self.step.per_batch, ..self.function.clone() }
    }
}
