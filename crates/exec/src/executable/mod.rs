//! A pipeline over its source, ready to run: morsels in, chunks out.
//!
//! A worker's executable can end at any placement boundary of the pipeline, and a consumer's continues from there.
//!
//! Invariants: a morsel's chunks depend on (pipeline, seed, epoch, consumer, morsel) alone, and on the boundary only
//! until the consumer finishes them; an error names the op, the user's line and the sample; all threads share one
//! executable.
//!
//! - `mod` (here): the executable, its boundaries, and the origin of errors
//! - `open`: opens a source and prepares its ops, for each role
//! - `run`: computes one morsel
//! - `morsel_rows`: selects a morsel's rows from the rows that ops make of source rows, and numbers them
//! - `block`: computes source blocks and windows that are read from their start
//! - `stats`: the costs of ops and the state of caches, as JSON
//! - `variant`: one compiled variant of a pipeline
//! - `row_source`: reads the rows of a source
//! - `combined`: reads the rows of datasets that are read as one, and runs their ops
//! - `row_ids`: the ids of rows that a Python source numbers by itself
//! - `environment`: the services that a pipeline needs from its process

mod block;
mod combined;
pub(crate) mod environment;
pub(crate) mod morsel_rows;
mod open;
pub(crate) mod row_ids;
pub(crate) mod row_source;
mod run;
mod stats;
pub(crate) mod variant;
mod windows;

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Fault, Result, SampleId};
use forebay_data::{Memory, Schema};
use forebay_io::SourceIndex;
use forebay_plan::{EpochPlan, Morsel, OnError, PlacementBoundary, Stages};

use crate::cached::autocache::AutoCache;
use crate::cached::page_cached::PageCachedSource;
use crate::executable::environment::Environment;
use crate::executable::morsel_rows::MorselRows;
use crate::executable::row_source::RowSource;
use crate::executable::variant::PipelineVariant;
use crate::profile::op_meter::OpMeter;
use crate::skip::known_skips::KnownSkips;

/// A pipeline over its source, ready to run.
pub struct Executable {
    stages: Arc<Stages>,
    plan: Arc<EpochPlan>,
    index: Option<SourceIndex>,
    rows: Option<RowSource>,
    /// The datasets of a mix that is merged in the tail, each a pipeline of its own.
    parts: Vec<Arc<Executable>>,
    /// Reads the remote files of the source through the page cache.
    page_cached: Option<PageCachedSource>,
    /// The variant that runs unless `autocache()` chose another one.
    variant: PipelineVariant,
    autocache: Option<AutoCache>,
    /// The boundaries: a worker's chunks end at one of them, the earliest first; a consumer's executable begins at one.
    boundaries: Vec<Boundary>,
    /// The index of the boundary that is used if a lease names none.
    default_boundary: usize,
    schema: Arc<Schema>,
    environment: Environment,
    meter: Arc<OpMeter>,
}

/// A placement boundary: a worker runs the first `ops` row ops, and the consumer the others.
#[derive(Debug, Clone)]
struct Boundary {
    ops: u32,
    /// The columns of the chunks that workers send.
    schema: Arc<Schema>,
}

impl Boundary {
    fn of(boundary: &PlacementBoundary) -> Self {
        Self { ops: boundary.ops_on_worker, schema: boundary.schema.clone() }
    }
}

/// The rows to compute, and the number of ops to run on them.
#[derive(Clone, Copy)]
pub struct MorselRequest<'a> {
    /// The epoch.
    pub epoch: Epoch,
    /// The consumer that gets the rows.
    pub consumer: ConsumerIndex,
    /// The rows.
    pub morsel: Morsel,
    /// The first chunk to compute of a source block: a resumed run has the chunks before it. 0 for a counted morsel.
    pub first_chunk: u64,
    /// The rows to skip, whether they fail or not.
    pub known_skips: &'a KnownSkips,
    /// The number of row ops to run: a result of [`Executable::resolve_boundary`].
    pub ops: u32,
}

/// The part of a [`MorselRequest`] that the ops need.
#[derive(Clone, Copy)]
pub(crate) struct MorselContext<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) known_skips: &'a KnownSkips,
    /// The index of the boundary.
    pub(crate) boundary: usize,
    /// The plan's facts about the rows, besides their source rows.
    pub(crate) known: Option<&'a MorselRows>,
}

impl Executable {
    /// Returns the stages.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.stages
    }

    /// Returns the epoch plan.
    pub fn plan(&self) -> &Arc<EpochPlan> {
        &self.plan
    }

    /// Returns the legal boundary for the number of row ops that a lease names: the boundary after exactly that many
    /// ops; the last boundary if the lease names more; otherwise, and without a number, the default boundary.
    pub fn resolve_boundary(&self, ops: Option<u32>) -> u32 {
        let is_exact = |boundary: &&Boundary| Some(boundary.ops) == ops;
        let last = self.boundaries.last().filter(|last| ops.is_some_and(|ops| ops > last.ops));
        let boundary = self.boundaries.iter().find(is_exact).or(last);
        boundary.or_else(|| self.boundaries.get(self.default_boundary)).map_or(0, |boundary| boundary.ops)
    }

    /// Returns all boundaries, the earliest first: the number of row ops before each, and the columns there.
    pub fn boundaries(&self) -> impl Iterator<Item = (u32, &Arc<Schema>)> {
        self.boundaries.iter().map(|boundary| (boundary.ops, &boundary.schema))
    }

    fn boundary_index(&self, ops: u32) -> Result<usize> {
        let found = self.boundaries.iter().position(|boundary| boundary.ops == ops);
        found.ok_or_else(|| Error::data(format!("a chunk ends after {ops} ops, where this pipeline has no boundary")))
    }

    /// Returns the columns of a chunk on which all row ops have run.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the datasets of a mix that is merged in the tail; none for any other source.
    pub(crate) fn parts(&self) -> &[Arc<Executable>] {
        &self.parts
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the meter that counts the costs of its ops.
    pub fn meter(&self) -> &Arc<OpMeter> {
        &self.meter
    }

    /// Returns the handling of rows that fail.
    pub(crate) fn on_error(&self) -> OnError {
        self.stages.graph.on_error()
    }

    /// Returns the allocator of large columns, with its budget.
    pub fn memory(&self) -> &Memory {
        &self.environment.memory
    }

    /// Checks that the pipeline's splits may be merged in any order.
    ///
    /// # Errors
    /// Invalid where an op, or coordinated consumers, need the splits in order.
    pub fn check_any_order(&self) -> Result<()> {
        if self.plan.sharding().coordinated {
            return Err(Error::invalid(
                "ordered=False cannot be used with coordinated=True: consumers take turns at the batches of one order",
            )
            .hint("leave one of them out"));
        }
        self.stages.check_any_order()
    }

    /// Tells `autocache()` how long this consumer reads: the epoch before which it ends, if it ends, and how many
    /// epochs other consumers have read before.
    pub fn expect(&self, end_epoch: Option<u64>, before: u64) {
        self.autocache.iter().for_each(|autocache| autocache.expect(end_epoch, before));
    }

    /// Says whether all row ops have run on a chunk once this number of them has.
    pub fn is_finished(&self, ops: u32) -> bool {
        let has_no_op = |boundary| self.variant.ops(boundary).next().is_none();
        self.variant.prefix.is_none() && self.boundary_index(ops).is_ok_and(has_no_op)
    }

    /// Replaces a sample's number in an error by its name for the user. Adds the source to an error of a file that is
    /// no sample's fault; errors of ops name their source themselves.
    pub fn locate(&self, error: Error) -> Error {
        let is_of_source = error.fault() == Fault::Other && error.get("file").is_some() && error.get("op").is_none();
        let error = if is_of_source { self.stages.graph.blame_source(error) } else { error };
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
