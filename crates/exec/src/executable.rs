//! A pipeline ready to run on this machine: morsels in, chunks out.
//!
//! Invariants: a morsel's chunks depend on (pipeline, seed, epoch, consumer, morsel) alone; an error names the op, the
//! user's line and the sample; one executable is shared by every thread that runs it.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Result, SampleId, Seed};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_io::{Blobs, SourceIndex};
use forebay_plan::{EpochPlan, Extent, Morsel, OnError, Source, Stages};

use crate::functions::Functions;
use crate::isolate::{Isolation, Known};
use crate::rows::Rows;
use crate::work::{Compiled, Scratch};

/// What a pipeline needs from the process that runs it.
#[derive(Clone)]
pub struct Environment {
    /// The arrays and pickles that travel with a graph.
    pub blobs: Arc<dyn Blobs>,
    /// Runs users' Python.
    pub functions: Arc<dyn Functions>,
    /// Where large columns are made.
    pub memory: Memory,
}

/// A pipeline over its source, ready to run.
pub struct Executable {
    stages: Arc<Stages>,
    plan: Arc<EpochPlan>,
    index: Option<SourceIndex>,
    rows: Option<Rows>,
    works: Vec<Compiled>,
    schema: Arc<Schema>,
    environment: Environment,
}

/// Says what is known of a source from its index.
pub fn extent(source: &Source, index: Option<&SourceIndex>) -> Extent {
    match index {
        Some(index) => Extent { rows: index.rows(), blocks: index.blocks(), bytes: index.bytes() },
        None => Extent { rows: source.rows(), blocks: 1, bytes: 0 },
    }
}

impl Executable {
    /// Opens the source and prepares each op.
    ///
    /// # Errors
    /// Whatever opening gives, and Invalid where an op's arguments cannot work together.
    pub fn new(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let rows = Rows::open(stages.graph.source(), index.clone(), environment)?;
        Self::build(stages, plan, index, Some(rows), environment)
    }

    /// Prepares only what runs after the merge: for a consumer whose splits are computed elsewhere.
    ///
    /// # Errors
    /// As [`Executable::new`], but nothing is opened.
    pub fn for_tail(stages: Arc<Stages>, plan: Arc<EpochPlan>, environment: &Environment) -> Result<Arc<Self>> {
        Self::build(stages, plan, None, None, environment)
    }

    /// Prepares only the row ops, without the source: for rows that are at hand.
    ///
    /// # Errors
    /// As [`Executable::new`], but nothing is opened.
    pub fn for_rows(stages: Arc<Stages>, plan: Arc<EpochPlan>, environment: &Environment) -> Result<Arc<Self>> {
        let mut built = Self::build(stages.clone(), plan, None, None, environment)?;
        let works = Self::compile(&stages, built.plan.seed(), environment)?;
        let this = Arc::get_mut(&mut built).ok_or_else(|| Error::internal("an executable that was just made"))?;
        this.works = works;
        Ok(built)
    }

    fn compile(stages: &Stages, seed: Seed, environment: &Environment) -> Result<Vec<Compiled>> {
        let mut schema = Arc::new(stages.graph.source().schema()?);
        let mut works = Vec::with_capacity(stages.split.len());
        for work in &stages.split {
            let compiled = Compiled::new(work, &schema, seed, environment)?;
            schema = compiled.schema().clone();
            works.push(compiled);
        }
        Ok(works)
    }

    fn build(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        rows: Option<Rows>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let works = match &rows {
            Some(_) => Self::compile(&stages, plan.seed(), environment)?,
            None => Vec::new(),
        };
        let schema = stages.split_schema()?;
        Ok(Arc::new(Self { stages, plan, index, rows, works, schema, environment: environment.clone() }))
    }

    /// Returns the stages.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.stages
    }

    /// Returns the epoch plan.
    pub fn plan(&self) -> &Arc<EpochPlan> {
        &self.plan
    }

    /// Returns the columns of the chunks that splits give.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns what becomes of rows that fail.
    pub(crate) fn on_error(&self) -> OnError {
        self.stages.graph.on_error()
    }

    /// Computes one morsel and hands over its chunks in order. A counted morsel gives exactly one chunk, perhaps of no
    /// rows; a source block gives as many as it takes. Where the pipeline says so, rows that fail, and those that are
    /// `known` to, are left out, and their chunk says which.
    ///
    /// # Errors
    /// What went wrong, with op, line and sample; or whatever `emit` returned.
    pub fn morsel(
        &self,
        epoch: Epoch,
        consumer: ConsumerIndex,
        morsel: Morsel,
        known: &Known,
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let rows = self.rows.as_ref().ok_or_else(|| Error::internal("this executable only runs the tail"))?;
        match morsel {
            Morsel::Units { .. } => {
                let mut places = Vec::new();
                self.plan.places(epoch, consumer, morsel, |row, epoch| places.push(forebay_io::Place { row, epoch }));
                let locate = |e| self.locate(e);
                let mut isolation = Isolation::new(self.on_error(), &locate);
                let chunk = isolation.gather(rows, &places).map_err(locate)?;
                emit(self.run(chunk, epoch, known, isolation, scratch)?)
            }
            Morsel::Block { block } => rows.stream(block, epoch, &mut |chunk| {
                let locate = |e| self.locate(e);
                let mut isolation = Isolation::new(self.on_error(), &locate);
                let chunk = chunk.map_err(locate)?;
                isolation.take_unread(chunk.losses()).map_err(locate)?;
                emit(self.run(chunk, epoch, known, isolation, scratch)?)
            }),
        }
    }

    fn run(
        &self,
        mut chunk: Chunk,
        epoch: Epoch,
        known: &Known,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let batch = self.stages.aligned.map(|b| b.size);
        chunk = chunk.with_losses(Vec::new());
        isolation.set_source(&chunk);
        chunk = isolation.leave_out(chunk, known, epoch)?;
        for work in &self.works {
            let ran = isolation.run(&chunk, &mut |chunk| work.run(chunk, batch, scratch));
            chunk = ran.map_err(|e| self.locate(e))?;
        }
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    /// Runs the ops of a split on rows as they were read: for one that was left out once.
    ///
    /// # Errors
    /// What is still wrong with it.
    pub fn again(&self, chunk: Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let mut done = chunk;
        for work in &self.works {
            done = work.run(&done, self.stages.aligned.map(|b| b.size), scratch).map_err(|e| self.locate(e))?;
        }
        Ok(done)
    }

    /// Replaces a sample's number in an error by what the user knows it as.
    pub(crate) fn locate(&self, error: Error) -> Error {
        let (Some(index), Some(sample)) = (&self.index, error.get("sample")) else { return error };
        let parts = sample.split_once(':').and_then(|(b, r)| Some((b.parse().ok()?, r.parse().ok()?)));
        match parts {
            Some((block, row)) if block < SampleId::BLOCKS_MAX && row < SampleId::ROWS_MAX => {
                let text = index.describe_sample(SampleId::new(block, row));
                error.replace("sample", text)
            }
            _ => error,
        }
    }
}

/// The samples of rows that a Python source numbers by itself.
pub(crate) fn numbered(places: &[forebay_io::Place]) -> Arc<[RowId]> {
    places.iter().map(|p| RowId { sample: numbered_sample(p.row), epoch: p.epoch }).collect()
}

/// The sample of such a row.
pub(crate) fn numbered_sample(row: u64) -> SampleId {
    SampleId::new(row >> 16, row & 0xFFFF)
}
