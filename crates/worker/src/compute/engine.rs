//! The interface between the lease table and the computation: threads and storage here, virtual time in the simulation.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_cache::Cache;
use forebay_data::Memory;
use forebay_exec::{CacheContext, Functions};

use crate::blobs::BlobStore;
use crate::compute::pool::Pool;
use crate::splits::jobs::{Job, Prepared, prepare};
use crate::splits::lease_table::LeaseTable;
use crate::splits::shared_chunks::SharedChunks;
use crate::splits::split_buffer::SplitBuffer;

/// Prepares jobs and computes splits for a lease table. None of its calls waits.
pub(crate) trait Engine: Sized + Send + Sync + 'static {
    /// A job that can be computed.
    type Prepared: Send + Sync + 'static;

    /// Describes as JSON the rows that the cache keeps of a job, and why; `None` if it keeps none.
    fn caching(job: &Self::Prepared) -> Option<String>;

    /// Returns why nothing is written to the cache's folder; empty if it is written to, or if there is none.
    fn disk_off(&self) -> String {
        String::new()
    }

    /// Returns the jobs that make no progress because their reads hang: their splits take no room from others.
    fn held_up(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    /// Prepares a job, and then calls [`LeaseTable::prepared`].
    fn prepare(&self, lease_table: &Arc<LeaseTable<Self>>, job: Arc<Job<Self::Prepared>>);

    /// Computes a split after all earlier ones; `first` when a consumer already waits for it.
    fn compute(&self, split: Arc<SplitBuffer>, job: Arc<Self::Prepared>, run: u64, first: bool);
}

/// The engine of a real worker: a pool of threads, and the inputs of preparing jobs.
pub(crate) struct PoolEngine {
    pub(crate) pool: Pool,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) functions: Arc<dyn Functions>,
    /// The sources that pipelines may read here. `None` means all that this machine's user may read, for a consumer of
    /// that user.
    pub(crate) sources: Option<Arc<[String]>>,
    /// The memory of chunks, which can be lent from there.
    pub(crate) memory: Memory,
    /// The cache of rows before `cache()`, for all jobs.
    pub(crate) cache_context: Option<CacheContext>,
    /// The same cache, for its state.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Chunks that jobs with the same samples share.
    pub(crate) shared_chunks: Arc<SharedChunks>,
}

impl Engine for PoolEngine {
    type Prepared = Prepared;

    fn caching(job: &Prepared) -> Option<String> {
        job.executable.caching()
    }

    fn disk_off(&self) -> String {
        self.cache.as_ref().and_then(|cache| cache.disk_stopped()).unwrap_or_default()
    }

    fn held_up(&self) -> BTreeSet<u64> {
        self.pool.jobs_held_up()
    }

    /// Must be called within a runtime.
    fn prepare(&self, lease_table: &Arc<LeaseTable>, job: Arc<Job>) {
        let (lease_table, blobs) = (lease_table.clone(), self.blobs.clone());
        let (functions, memory, cache_context) =
            (self.functions.clone(), self.memory.clone(), self.cache_context.clone());
        let sources = self.sources.clone();
        let shared_chunks = self.shared_chunks.clone();
        tokio::spawn(async move {
            let prepared = prepare(&job, &blobs, functions, sources, memory, cache_context, &shared_chunks).await;
            if let Ok(prepared) = &prepared {
                lease_table.stats.ops.watch(job.definition.job, &prepared.executable);
            }
            lease_table.prepared(&job, prepared);
        });
    }

    fn compute(&self, split: Arc<SplitBuffer>, job: Arc<Prepared>, run: u64, first: bool) {
        self.pool.push(split, job, run, first);
    }
}
