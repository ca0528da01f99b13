//! One piece of work on a chunk: fused image ops, a vectorised op on columns, tokenization, a user's function, or a mixing
//! of batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_array::ArrayRef;
use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, Loss, Schema};
use forebay_plan::{Function, Op, Step, Work};

use crate::crew::{Crew, Place};
use crate::executable::Environment;
use crate::functions::{Functions, Pickle, Randomness};
use crate::images::ImageWork;
use crate::meter::{Given, OpMeter, Slot, Tally};
use crate::mix::MixWork;
use crate::table;
use crate::tokenize::TokenizeWork;
use crate::twice::Twice;

/// What one thread keeps between morsels.
#[derive(Default)]
pub struct Scratch {
    images: Option<crate::image::Scratch>,
    place: Option<Place>,
    /// What it counts of the morsel that it is at.
    pub(crate) tally: Tally,
}

impl Scratch {
    /// Shares the rows of the next morsel with a crew. `order` is the morsel's place in the stream: the lowest is helped
    /// first.
    pub fn share(&mut self, crew: &Arc<Crew>, order: u64) {
        self.place = Some(Place { crew: crew.clone(), order });
    }

    /// Runs `body` for each row: here, or with the crew.
    pub(crate) fn for_each_row(
        &mut self,
        rows: usize,
        body: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        let Some(Place { crew, order }) = self.place.clone().filter(|_| rows > 1) else {
            return (0..rows).try_for_each(|row| body(row, self));
        };
        let Some(watch) = self.tally.watch() else { return crew.for_each_row(order, rows, self, body) };
        let (began, spent) = (watch.nanos(), AtomicU64::new(0));
        let timed = |row: usize, scratch: &mut Scratch| {
            let began = watch.nanos();
            let done = body(row, scratch);
            spent.fetch_add(watch.nanos() - began, Relaxed);
            done
        };
        let done = crew.for_each_row(order, rows, self, &timed);
        self.tally.shared(spent.into_inner(), watch.nanos() - began);
        done
    }

    /// Returns another scratch of the same place in the stream.
    pub(crate) fn beside(&self) -> Self {
        Self { place: self.place.clone(), ..Self::default() }
    }

    /// Runs `body` for each of these chunks: here, or with the crew.
    pub(crate) fn for_each_chunk(
        &mut self,
        chunks: usize,
        body: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        match self.place.clone().filter(|_| chunks > 1) {
            Some(Place { crew, order }) => crew.for_each_row(order, chunks, self, body),
            None => (0..chunks).try_for_each(|chunk| body(chunk, self)),
        }
    }

    /// Runs `work` on rows, and counts that for an op.
    pub(crate) fn metered(
        &mut self,
        slot: Slot,
        given: Given<'_>,
        work: impl FnOnce(&mut Self) -> Result<Chunk>,
    ) -> Result<Chunk> {
        let span = self.tally.start();
        let done = work(self);
        self.tally.stop(slot, span, given, done.as_ref().ok());
        done
    }

    /// Forgets what a panic may have left half done.
    pub(crate) fn reset(&mut self) {
        self.images = None;
    }

    /// Made at first use: a pipeline without images needs no decoder.
    pub(crate) fn images(&mut self) -> &mut crate::image::Scratch {
        self.images.get_or_insert_with(|| crate::image::Scratch::new(crate::image::Limits::default()))
    }
}

/// A piece of work, ready to run.
pub(crate) struct Compiled {
    pub(crate) kernel: Kernel,
    /// Where what it costs is counted.
    pub(crate) slot: Slot,
}

pub(crate) enum Kernel {
    Image(ImageWork),
    Table(Step),
    Tokenize(Box<TokenizeWork>),
    Function(FunctionWork),
    Mix(MixWork),
}

impl Compiled {
    pub(crate) fn new(
        work: &Work,
        input: &Arc<Schema>,
        seed: Seed,
        env: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let kernel = match work {
            Work::Image { column, steps } => {
                Kernel::Image(ImageWork::new(column, steps, input, seed, env.memory.clone())?)
            }
            Work::Table(step) => Kernel::Table(step.clone()),
            Work::Tokenize(step) => Kernel::Tokenize(Box::new(TokenizeWork::new(step, env.blobs.as_ref())?)),
            Work::Function(step) => Kernel::Function(FunctionWork::new(step, seed, env)?),
            Work::Mix(step) => Kernel::Mix(MixWork::new(step, seed)),
        };
        Ok(Self { kernel, slot: meter.slot_of(work) })
    }

    /// Returns the columns after it.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        match &self.kernel {
            Kernel::Image(work) => work.schema(),
            Kernel::Table(step) => &step.schema,
            Kernel::Tokenize(work) => work.schema(),
            Kernel::Function(work) => &work.step.schema,
            Kernel::Mix(work) => &work.step.schema,
        }
    }

    /// Runs it; `batch` is the size of the batches that a per-batch op is called for.
    pub(crate) fn run(&self, chunk: &Chunk, batch: Option<usize>, scratch: &mut Scratch) -> Result<Chunk> {
        scratch.metered(self.slot, Given::Chunk(chunk), |scratch| self.kernel.run(chunk, batch, scratch))
    }
}

impl Kernel {
    fn run(&self, chunk: &Chunk, batch: Option<usize>, scratch: &mut Scratch) -> Result<Chunk> {
        match self {
            Kernel::Image(work) => work.run(chunk, scratch),
            Kernel::Table(step) => table::apply(&step.node.op, chunk, &step.schema).map_err(|e| step.node.blame(e)),
            Kernel::Tokenize(work) => work.run(chunk),
            Kernel::Function(work) => work.run(chunk, batch).map_err(|e| work.step.node.blame(e)),
            Kernel::Mix(work) => each_batch(chunk, batch, |batch| work.run(batch)).map_err(|e| work.step.node.blame(e)),
        }
    }
}

/// Runs `f` on each batch of `size` rows; without a size the chunk is one batch.
fn each_batch(chunk: &Chunk, size: Option<usize>, f: impl Fn(&Chunk) -> Result<Chunk>) -> Result<Chunk> {
    match size {
        Some(size) if chunk.num_rows() > size => {
            let starts = (0..chunk.num_rows()).step_by(size);
            let parts: Result<Vec<_>> = starts.map(|s| f(&chunk.slice(s, size.min(chunk.num_rows() - s)))).collect();
            let parts = parts?;
            let warnings = parts.iter().flat_map(|p| p.losses().iter().cloned()).collect();
            Ok(Chunk::concat(&parts)?.with_losses(warnings))
        }
        _ => f(chunk),
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
    twice: Twice,
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
        Ok(Self {
            step: step.clone(),
            function,
            pickle,
            randomness,
            functions,
            output,
            keep_others,
            twice: Twice::default(),
        })
    }

    fn run(&self, chunk: &Chunk, batch: Option<usize>) -> Result<Chunk> {
        each_batch(chunk, batch.filter(|_| self.step.per_batch), |batch| self.call(batch))
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
            let filter = |input: &Chunk| self.functions.filter(&function, &self.pickle, input, self.randomness);
            let keep = filter(&input)?;
            let verdict: ArrayRef = Arc::new(keep.clone());
            let again = |input: &Chunk| Ok::<Vec<ArrayRef>, Error>(vec![Arc::new(filter(input)?)]);
            let warning = self.twice.check(&input, &[verdict], &Schema::default(), function.batched, &again);
            return Ok(self.warned(chunk.filter(&keep)?, warning));
        };
        let map = |input: &Chunk| self.functions.map(&function, &self.pickle, input, self.randomness, output);
        let columns = map(&input)?;
        let warning = self.twice.check(&input, &columns, output, function.batched, &map);
        let mapped = if self.keep_others {
            output.fields().iter().zip(columns).try_fold(chunk.clone(), |c, (f, col)| c.with_column(f.clone(), col))?
        } else {
            chunk.with_columns(output.clone(), columns)?
        };
        Ok(self.warned(mapped, warning))
    }

    /// A warning travels with the rows it is about.
    fn warned(&self, chunk: Chunk, warning: Option<Loss>) -> Chunk {
        let warning = warning.map(|loss| Loss { error: self.step.node.blame(loss.error), ..loss });
        chunk.with_losses(warning.into_iter().collect())
    }

    /// After batch, a function sees columns whether the user said `batched` or not.
    fn effective(&self) -> Function {
        Function { batched: self.function.batched || self.step.per_batch, ..self.function.clone() }
    }
}
