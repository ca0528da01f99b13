//! A pipeline ready to run on this machine: morsels in, chunks out.
//!
//! Invariants: a morsel's chunks depend on (pipeline, seed, epoch, consumer, morsel) alone; an error names the op, the
//! user's line and the sample; one executable is shared by every thread that runs it.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_io::{Blobs, SourceIndex};
use forebay_plan::{EpochPlan, Extent, Morsel, Source, Stages};

use crate::functions::Functions;
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

    fn build(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        rows: Option<Rows>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let mut schema = Arc::new(stages.graph.source().schema()?);
        let mut works = Vec::new();
        if rows.is_some() {
            for work in &stages.split {
                works.push(Compiled::new(work, &schema, plan.seed(), environment)?);
                schema = works.last().map_or(schema, |w| w.schema().clone());
            }
        }
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

    /// Computes one morsel and hands over its chunks in order. A counted morsel gives exactly one chunk, perhaps of no
    /// rows; a source block gives as many as it takes.
    ///
    /// # Errors
    /// What went wrong, with op, line and sample; or whatever `emit` returned.
    pub fn morsel(
        &self,
        epoch: Epoch,
        consumer: ConsumerIndex,
        morsel: Morsel,
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let rows = self.rows.as_ref().ok_or_else(|| Error::internal("this executable only runs the tail"))?;
        match morsel {
            Morsel::Units { .. } => {
                let mut places = Vec::new();
                self.plan.places(epoch, consumer, morsel, |row, epoch| places.push(forebay_io::Place { row, epoch }));
                let chunk = rows.gather(&places).map_err(|e| self.locate(e))?;
                emit(self.run(chunk, scratch)?)
            }
            Morsel::Block { block } => rows.stream(block, epoch, &mut |chunk| {
                let chunk = chunk.map_err(|e| self.locate(e))?;
                emit(self.run(chunk, scratch)?)
            }),
        }
    }

    fn run(&self, mut chunk: Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let batch = self.stages.aligned.map(|b| b.size);
        for work in &self.works {
            chunk = work.run(&chunk, batch, scratch).map_err(|e| self.locate(e))?;
        }
        Ok(chunk)
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
    places.iter().map(|p| RowId { sample: SampleId::new(p.row >> 16, p.row & 0xFFFF), epoch: p.epoch }).collect()
}
