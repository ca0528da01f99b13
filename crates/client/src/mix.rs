//! A mix of datasets whose rows are not counted, on a service: each dataset is a job, and this process mixes their rows.
//!
//! The jobs are named `<job>.<dataset>`. Every consumer has a share of each, and mixes it by itself. The order of the mix
//! follows from the pipeline and the seed, so it is the one of a stream in this process.
//!
//! Invariant: a consumer attaches at positions of the mix alone. It never goes on from what a job counts as consumed,
//! because the jobs of one mix may count rows that the user has not had.

use std::sync::Arc;

use bytes::Bytes;
use forebay_core::{Error, Result, SystemClock};
use forebay_data::{Memory, MemoryBudget};
use forebay_exec::{
    Delivery, Environment, Executable, Functions, LocalOptions, MixedStream, PartStream, PartStreams, Position,
    SkippedSample,
};
use forebay_plan::{
    BlobId, Combination, Combined, Combining, Ending, EpochPlan, Extent, Sharding, Source, Stages, Stop,
};

use crate::blobs::TailBlobs;
use crate::job::{JobSpec, OpenedJob};
use crate::options::StreamOptions;
use crate::service::Service;
use crate::stream::service_stream::ServiceStream;

/// The epochs of a dataset's job for each epoch of a mix in which datasets begin again.
const PASSES: u64 = 1 << 32;

/// A mix whose datasets are jobs that the dispatcher has recorded.
pub struct OpenedMix {
    jobs: Vec<OpenedJob>,
    stages: Arc<Stages>,
    plan: Arc<EpochPlan>,
    blobs: Arc<TailBlobs>,
    epochs: Option<u64>,
}

impl Service {
    /// Creates the jobs of a mix whose datasets are not counted, or attaches to existing ones. As
    /// [`Service::open_job`].
    ///
    /// # Errors
    /// As [`Service::open_job`]; Invalid for consumers that are coordinated or would end epochs together.
    pub fn open_mix(
        &self,
        spec: &JobSpec,
        blobs: &dyn Fn(&BlobId) -> Option<Bytes>,
        progress: &mut dyn FnMut(u64, u64),
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<OpenedMix> {
        let (stages, sharding) = Sharding::choose(&spec.graph, spec.consumers, spec.even, spec.coordinated)?;
        check_apart(spec, &stages, sharding)?;
        let Source::Combined(Combined { how: Combining::Mix { stop, .. }, parts, .. }) = &stages.source else {
            return Err(Error::internal("it is no mix"));
        };
        let epochs = match stop {
            Stop::First | Stop::Once => spec.epochs,
            Stop::All | Stop::Rows(_) | Stop::Never => spec.epochs.map(|epochs| epochs.saturating_mul(PASSES)),
        };
        let mut jobs = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            let own = JobSpec {
                name: format!("{}.{}", spec.name, part.name),
                graph: stages.parts[number].graph.clone(),
                seed: Combination::part_seed(spec.seed, number),
                epochs,
                even: Some(false),
                ending: None,
                ..spec.clone()
            };
            jobs.push(self.open_job(&own, blobs, progress, poll).map_err(|e| e.with("part", &part.name))?);
        }
        let tail = Arc::new(TailBlobs::of(&stages, blobs)?);
        let plan = EpochPlan::new(&stages, extent(&jobs), spec.seed, sharding, None)?;
        Ok(OpenedMix { jobs, stages: Arc::new(stages), plan: Arc::new(plan), blobs: tail, epochs: spec.epochs })
    }
}

impl OpenedMix {
    /// Returns the plan of the mix.
    pub fn plan(&self) -> &Arc<EpochPlan> {
        &self.plan
    }

    /// Starts to read. Returns at once: the first `next` waits.
    ///
    /// # Errors
    /// As [`ServiceStream::start`]; Invalid for a state with samples that a process left out by accident.
    pub fn start(&self, functions: Arc<dyn Functions>, options: StreamOptions) -> Result<MixedStream> {
        if !options.known.is_empty() {
            return Err(Error::invalid("this state has samples that were left out because a process died, and a service cannot leave them out of this mix again")
                .hint("go on from this state in this process (iter)"));
        }
        let memory = Memory::reused().with_budget(options.memory);
        let environment = Environment {
            blobs: self.blobs.clone(),
            functions: functions.clone(),
            memory,
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        let executable = Executable::for_consumer(self.stages.clone(), self.plan.clone(), &environment)?;
        let local = LocalOptions {
            end_epoch: self.epochs,
            ordered: options.ordered,
            consumer: options.consumer,
            from: options.from.clone().unwrap_or_default(),
            budget: options.budget,
            ..LocalOptions::default()
        };
        let memory = MemoryBudget::divided(options.memory, self.jobs.len());
        let streams = JobParts { jobs: self.jobs.clone(), functions, options: StreamOptions { memory, ..options } };
        MixedStream::over(executable, local, Box::new(streams))
    }
}

/// Refuses consumers that depend on each other: each mixes its own share.
fn check_apart(spec: &JobSpec, stages: &Stages, sharding: Sharding) -> Result<()> {
    if spec.coordinated {
        let error =
            Error::invalid("coordinated=True cannot be used on a service with a mix whose datasets are not counted");
        return Err(error.hint("iterate in the process of each consumer (iter), or save each dataset once (save)"));
    }
    match Ending::choose(&spec.graph, stages, sharding, spec.even, spec.ending) {
        Ending::Apart => Ok(()),
        _ => Err(Error::invalid(
            "the consumers of a mix whose datasets are not counted cannot end epochs together on a service",
        )
        .hint("use even=False, or stop=None and the same number of steps for all")),
    }
}

/// Returns the size of a mix of the sources of these jobs.
fn extent(jobs: &[OpenedJob]) -> Extent {
    let parts: Vec<Extent> = jobs.iter().map(|job| job.plan().extent().clone()).collect();
    let sum = |of: fn(&Extent) -> u64| parts.iter().map(of).fold(0, u64::saturating_add);
    let (blocks, bytes) = (sum(|part| part.blocks), sum(|part| part.bytes));
    Extent { rows: None, blocks, bytes, is_compressed: parts.iter().any(|part| part.is_compressed), parts }
}

/// The jobs of the datasets of a mix.
struct JobParts {
    jobs: Vec<OpenedJob>,
    functions: Arc<dyn Functions>,
    options: StreamOptions,
}

impl JobParts {
    fn open(&self, part: usize, from: Position, end_epoch: Option<u64>) -> Result<ServiceStream> {
        let until_empty = end_epoch.is_none();
        let options = StreamOptions { from: Some(from), end_epoch, until_empty, ..self.options.clone() };
        ServiceStream::start(&self.jobs[part], self.functions.clone(), options)
    }
}

impl PartStreams for JobParts {
    fn start(&self, part: usize, from: &Position, end_epoch: Option<u64>) -> Result<Box<dyn PartStream>> {
        Ok(Box::new(self.open(part, from.clone(), end_epoch)?))
    }

    fn finish(&self, part: usize, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(epoch) = self.jobs[part].epochs() else { return Ok(()) };
        // A stream at the end of its job has no row, and says so to the dispatcher.
        let mut stream = self.open(part, Position { epoch, ..Position::default() }, Some(epoch))?;
        stream.next(poll).map(drop)
    }
}

impl PartStream for ServiceStream {
    fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        Self::next(self, poll)
    }

    fn take_skipped(&mut self) -> Vec<SkippedSample> {
        self.take_losses()
    }
}
