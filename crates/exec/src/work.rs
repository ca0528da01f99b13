//! One piece of work on a chunk: fused image ops, a vectorised op on columns, tokenization, or a user's function.

use std::sync::Arc;

use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, Schema};
use forebay_plan::{Function, Op, Step, Work};

use crate::executable::Environment;
use crate::functions::{Functions, Pickle, Randomness};
use crate::images::ImageWork;
use crate::table;
use crate::tokenize::TokenizeWork;

/// What one thread keeps between morsels.
#[derive(Default)]
pub struct Scratch {
    images: Option<crate::image::Scratch>,
}

impl Scratch {
    /// Made at first use: a pipeline without images needs no decoder.
    fn images(&mut self) -> Result<&mut crate::image::Scratch> {
        match &mut self.images {
            Some(images) => Ok(images),
            none => Ok(none.insert(crate::image::Scratch::new(crate::image::Limits::default())?)),
        }
    }
}

pub(crate) enum Compiled {
    Image(ImageWork),
    Table(Step),
    Tokenize(Box<TokenizeWork>),
    Function(FunctionWork),
}

impl Compiled {
    pub(crate) fn new(work: &Work, input: &Arc<Schema>, seed: Seed, env: &Environment) -> Result<Self> {
        match work {
            Work::Image { column, steps } => Ok(Compiled::Image(ImageWork::new(column, steps, input, seed)?)),
            Work::Table(step) => Ok(Compiled::Table(step.clone())),
            Work::Tokenize(step) => Ok(Compiled::Tokenize(Box::new(TokenizeWork::new(step, env.blobs.as_ref())?))),
            Work::Function(step) => Ok(Compiled::Function(FunctionWork::new(step, seed, env)?)),
        }
    }

    /// Returns the columns after it.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        match self {
            Compiled::Image(work) => work.schema(),
            Compiled::Table(step) => &step.schema,
            Compiled::Tokenize(work) => work.schema(),
            Compiled::Function(work) => &work.step.schema,
        }
    }

    /// Runs it; `batch` is the size of the batches that a per-batch function is called for.
    pub(crate) fn run(&self, chunk: &Chunk, batch: Option<usize>, scratch: &mut Scratch) -> Result<Chunk> {
        match self {
            Compiled::Image(work) => work.run(chunk, scratch.images()?),
            Compiled::Table(step) => table::apply(&step.node.op, chunk, &step.schema).map_err(|e| step.node.blame(e)),
            Compiled::Tokenize(work) => work.run(chunk),
            Compiled::Function(work) => work.run(chunk, batch).map_err(|e| work.step.node.blame(e)),
        }
    }
}

/// A user's function in its place.
pub(crate) struct FunctionWork {
    step: Step,
    function: Function,
    pickle: Pickle,
    randomness: Option<Randomness>,
    functions: Arc<dyn Functions>,
    /// The columns that it writes; `None` for a filter.
    output: Option<Arc<Schema>>,
    keep_others: bool,
}

impl FunctionWork {
    fn new(step: &Step, seed: Seed, env: &Environment) -> Result<Self> {
        let (output, keep_others) = match &step.node.op {
            Op::Map { output, keep_others, .. } => (Some(Arc::new(Schema::new(output.clone())?)), *keep_others),
            _ => (None, true),
        };
        let function = step.node.op.function().ok_or_else(|| Error::internal("no function"))?.clone();
        let pickle = Pickle { id: function.blob.clone(), bytes: env.blobs.get(&function.blob)? };
        let randomness = function.with_rng.then_some(Randomness { seed, random: step.random });
        let functions = env.functions.clone();
        Ok(Self { step: step.clone(), function, pickle, randomness, functions, output, keep_others })
    }

    fn run(&self, chunk: &Chunk, batch: Option<usize>) -> Result<Chunk> {
        match batch {
            Some(size) if self.step.per_batch && chunk.num_rows() > size => {
                let starts = (0..chunk.num_rows()).step_by(size);
                let parts: Result<Vec<_>> =
                    starts.map(|s| self.call(&chunk.slice(s, size.min(chunk.num_rows() - s)))).collect();
                Chunk::concat(&parts?)
            }
            _ => self.call(chunk),
        }
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
        let Some(output) = &self.output else {
            let keep = self.functions.filter(&function, &self.pickle, &input, self.randomness)?;
            return chunk.filter(&keep);
        };
        let columns = self.functions.map(&function, &self.pickle, &input, self.randomness, output)?;
        if !self.keep_others {
            return chunk.with_columns(output.clone(), columns);
        }
        output.fields().iter().zip(columns).try_fold(chunk.clone(), |c, (f, col)| c.with_column(f.clone(), col))
    }

    /// After batch, a function sees columns whether the user said `batched` or not.
    fn effective(&self) -> Function {
        Function { batched: self.function.batched || self.step.per_batch, ..self.function.clone() }
    }
}
