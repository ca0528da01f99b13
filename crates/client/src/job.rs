//! The specification of a job, and an opened job.

use std::sync::Arc;

use forebay_core::{Result, Seed, SystemClock};
use forebay_data::Memory;
use forebay_exec::{Environment, Executable, Functions};
use forebay_plan::{Ending, EpochPlan, Graph, Stages};
use forebay_proto::{JobDefinition, JobKey, Remote};

use crate::blobs::TailBlobs;

/// The specification of a job.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// The name under which all consumers open the job.
    pub name: String,
    /// The pipeline.
    pub graph: Graph,
    /// The seed of all random numbers.
    pub seed: Seed,
    /// Passes over the pipeline; `None` for a job without end.
    pub epochs: Option<u64>,
    /// The number of consumers that share the job; at least 1.
    pub consumers: u32,
    /// Whether all consumers get equally many batches in every epoch. `None` means yes if there are several consumers
    /// and the plan knows the counts.
    pub even: Option<bool>,
    /// How all consumers end an epoch together if the plan does not know how many batches each has. `None` means
    /// `Drop`, unless `even` is `Some(false)`.
    pub ending: Option<Ending>,
    /// Whether all consumers get batches of the same bucket at each step. Default: false.
    pub coordinated: bool,
    /// The job's share of the workers, relative to other jobs, when jobs want more workers than there are: 1 to 1000.
    /// Default: 1.
    pub weight: u32,
    /// Jobs of a higher priority get workers first: 0 to 9. Default: 0.
    pub priority: u32,
}

/// A job that the dispatcher has recorded.
#[derive(Clone)]
pub struct OpenedJob {
    pub(crate) dispatcher: Remote,
    pub(crate) definition: JobDefinition,
    pub(crate) stages: Arc<Stages>,
    pub(crate) plan: Arc<EpochPlan>,
    pub(crate) blobs: Arc<TailBlobs>,
}

impl OpenedJob {
    /// Returns the job's name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the job's number at the dispatcher.
    pub fn id(&self) -> u64 {
        self.definition.job
    }

    /// Returns the key that the job's workers require; an empty key if the dispatcher has no tokens.
    pub(crate) fn key(&self) -> JobKey {
        JobKey::from_bytes(&self.definition.key)
    }

    /// Returns the seed with which the job was created.
    pub fn seed(&self) -> Seed {
        Seed(self.definition.seed)
    }

    /// Returns the number of epochs; `None` for a job without end.
    pub fn epochs(&self) -> Option<u64> {
        Some(self.definition.epochs).filter(|&n| n > 0)
    }

    /// Returns the number of consumers that share the job.
    pub fn consumers(&self) -> u32 {
        self.definition.consumers
    }

    /// Returns how all consumers end an epoch together.
    pub fn ending(&self) -> Ending {
        self.definition.ending().into()
    }

    /// Returns the stages, which define where each op runs.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.stages
    }

    /// Returns the epoch plan, which defines the rows of each split.
    pub fn plan(&self) -> &Arc<EpochPlan> {
        &self.plan
    }

    /// Prepares the ops that run in this process.
    pub(crate) fn executable(&self, functions: Arc<dyn Functions>, memory: Memory) -> Result<Arc<Executable>> {
        let environment = Environment {
            blobs: self.blobs.clone(),
            functions,
            memory,
            cache_context: None,
            watch: Arc::new(SystemClock::default()),
        };
        Executable::for_consumer(self.stages.clone(), self.plan.clone(), &environment)
    }
}
