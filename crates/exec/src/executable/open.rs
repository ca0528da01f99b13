//! Opens a source and prepares its ops, for each role: a stream in this process, a worker, a consumer, given rows.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_io::{ROWS_IN_BLOCK, SourceIndex};
use forebay_plan::{BlockStarts, EpochPlan, Source, SourcePart, Stages, default_boundary};

use super::{Boundary, Executable};
use crate::cached::autocache::AutoCache;
use crate::cached::page_cached::PageCachedSource;
use crate::executable::combined::PartOpening;
use crate::executable::environment::Environment;
use crate::executable::variant::PipelineVariant;
use crate::profile::op_meter::OpMeter;

/// Returns the first row of each block of a source, and the number of rows. Blocks of a Python object are runs of
/// items.
fn block_starts(index: Option<&SourceIndex>, plan: &EpochPlan) -> BlockStarts {
    let rows = plan.extent().rows.unwrap_or(0);
    let runs = || (0..rows.div_ceil(ROWS_IN_BLOCK)).map(|run| run * ROWS_IN_BLOCK).chain([rows]).collect();
    index.map_or_else(|| BlockStarts { starts: runs(), parts: Vec::new() }, block_starts_of)
}

fn block_starts_of(index: &SourceIndex) -> BlockStarts {
    BlockStarts { starts: index.block_starts(), parts: index.parts().map(block_starts_of).collect() }
}

impl Executable {
    /// Opens the source and prepares each op of a split.
    ///
    /// # Errors
    /// Errors of opening the source, and Invalid where an op's arguments cannot work together.
    pub fn new(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let legal = stages.placement_boundaries()?;
        let whole = legal.last().map(Boundary::of).into_iter().collect();
        Self::open(stages, plan, index, (whole, 0), (environment, 1))
    }

    /// As [`Executable::new`], for a worker: the executable can end at each boundary ([`Stages::placement_boundaries`]).
    ///
    /// # Errors
    /// As [`Executable::new`].
    pub fn for_worker(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        environment: &Environment,
    ) -> Result<Arc<Self>> {
        let legal = stages.placement_boundaries()?;
        let boundaries = legal.iter().map(Boundary::of).collect();
        Self::open(stages, plan, index, (boundaries, default_boundary(&legal)), (environment, 1))
    }

    /// Prepares the ops that a consumer of a service runs: the ops after each boundary, and those after the merge.
    /// Opens nothing.
    ///
    /// # Errors
    /// As [`Executable::new`].
    pub fn for_consumer(stages: Arc<Stages>, plan: Arc<EpochPlan>, environment: &Environment) -> Result<Arc<Self>> {
        let legal = stages.placement_boundaries()?;
        let meter = OpMeter::new(environment.watch.clone());
        meter.name_by(&stages);
        let variant = PipelineVariant::after_boundaries(&legal, &plan, environment, &meter)?;
        let boundaries = legal.iter().map(Boundary::of).collect();
        Self::without_source(stages, plan, boundaries, variant, environment.clone(), meter)
    }

    /// Prepares the row ops without the source, for given rows on which no op has run.
    ///
    /// # Errors
    /// As [`Executable::new`], but nothing is opened.
    pub fn for_rows(stages: Arc<Stages>, plan: Arc<EpochPlan>, environment: &Environment) -> Result<Arc<Self>> {
        let input = Arc::new(stages.source.schema()?);
        let environment = Environment { cache_context: None, ..environment.clone() };
        let meter = OpMeter::new(environment.watch.clone());
        meter.name_by(&stages);
        let all = stages.split.iter().map(|work| work.steps().len() as u32).sum();
        let variant = PipelineVariant::new(&stages, &[all], &input, &plan, &environment, &meter)?;
        let boundaries = vec![Boundary { ops: 0, schema: input }];
        Self::without_source(stages, plan, boundaries, variant, environment, meter)
    }

    fn without_source(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        boundaries: Vec<Boundary>,
        variant: PipelineVariant,
        environment: Environment,
        meter: Arc<OpMeter>,
    ) -> Result<Arc<Self>> {
        let schema = stages.split_schema()?;
        Ok(Arc::new(Self {
            stages,
            plan,
            index: None,
            rows: None,
            parts: Vec::new(),
            page_cached: None,
            variant,
            autocache: None,
            boundaries,
            default_boundary: 0,
            schema,
            environment,
            meter,
        }))
    }

    /// Opens the datasets of a mix that is merged in the tail. They share memory and open files.
    fn open_parts(
        stages: &Stages,
        plan: &EpochPlan,
        index: Option<&SourceIndex>,
        environment: &Environment,
    ) -> Result<Vec<Arc<Self>>> {
        let Source::Combined(combined) = &stages.source else { return Ok(Vec::new()) };
        let indexes: Vec<_> = index.iter().flat_map(|index| index.parts()).collect();
        if !combined.is_streamed() {
            return Ok(Vec::new());
        }
        let count = combined.parts.len();
        if [indexes.len(), stages.parts.len(), plan.parts().len()].iter().any(|parts| *parts != count) {
            return Err(Error::internal("datasets that are read as one need their index and their plan"));
        }
        let open = |(number, part): (usize, &SourcePart)| {
            let (stages, plan) = (stages.parts[number].clone(), plan.parts()[number].clone());
            let legal = stages.placement_boundaries()?;
            let whole = legal.last().map(Boundary::of).into_iter().collect();
            let opened = Self::open(stages, plan, Some(indexes[number].clone()), (whole, 0), (environment, count));
            opened.map_err(|e| e.with("part", &part.name))
        };
        combined.parts.iter().enumerate().map(open).collect()
    }

    /// Opens a source: one of `sharers` pipelines that share memory and open files.
    fn open(
        stages: Arc<Stages>,
        plan: Arc<EpochPlan>,
        index: Option<SourceIndex>,
        (boundaries, default_boundary): (Vec<Boundary>, usize),
        (environment, sharers): (&Environment, usize),
    ) -> Result<Arc<Self>> {
        let source = &stages.source;
        let bytes = index.as_ref().map_or(0, SourceIndex::bytes);
        let context = environment.cache_context.as_ref();
        let page_cached = context.and_then(|context| PageCachedSource::open(source, bytes, &context.cache));
        let plan =
            if plan.knows_rows() { plan } else { Arc::new(plan.over(&stages, block_starts(index.as_ref(), &plan))?) };
        let sizes = || index.as_ref().map(SourceIndex::window_sizes).unwrap_or_default();
        let plan = if plan.lane_layout().is_some() { Arc::new(plan.over_files(sizes())) } else { plan };
        let window_rows = plan.sizing().window_rows;
        let others = sharers - 1;
        let opening = PartOpening { page_cached: page_cached.clone(), environment: environment.clone(), others };
        let rows = match stages.source.is_streamed_mix() {
            true => None,
            false => Some(opening.rows(&stages, index.clone(), plan.combination(), (plan.seed(), window_rows))?),
        };
        let parts = Self::open_parts(&stages, &plan, index.as_ref(), environment)?;
        let environment = &match sharers {
            1 => environment.clone(),
            _ => Environment { memory: environment.memory.divided(sharers), ..environment.clone() },
        };
        let input = Arc::new(stages.source.schema()?);
        let meter = OpMeter::new(environment.watch.clone());
        meter.name_by(&stages);
        let ops: Vec<_> = boundaries.iter().map(|boundary| boundary.ops).collect();
        let variant = PipelineVariant::new(&stages, &ops, &input, &plan, environment, &meter)?;
        if let Some((prefix, context)) = variant.prefix.as_ref().zip(context) {
            prefix.open(context);
        }
        let autocache = AutoCache::new(&stages, &ops, &input, &plan, environment, &meter)?;
        let (environment, schema) = (environment.clone(), stages.split_schema()?);
        Ok(Arc::new(Self {
            stages,
            plan,
            index,
            rows,
            parts,
            page_cached,
            variant,
            autocache,
            boundaries,
            default_boundary,
            schema,
            environment,
            meter,
        }))
    }
}
