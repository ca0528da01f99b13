//! What prepares jobs and computes splits for a shelf: threads and storage here, virtual time in the simulation.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_cache::Cache;
use forebay_data::Memory;
use forebay_exec::{CacheContext, Functions};

use crate::blobs::BlobStore;
use crate::held::Held;
use crate::jobs::{Job, Prepared, prepare};
use crate::pool::Pool;
use crate::shelf::Shelf;
use crate::window::Window;

/// Does a shelf's work, later: neither of its calls waits.
pub(crate) trait Engine: Sized + Send + Sync + 'static {
    /// A job that can be computed.
    type Prepared: Send + Sync + 'static;

    /// Says what is kept of a job here, and why: JSON. `None` where it keeps nothing.
    fn caching(job: &Self::Prepared) -> Option<String>;

    /// Says why nothing is written to the folder where rows are kept; empty where it is, or there is none.
    fn disk_off(&self) -> String {
        String::new()
    }

    /// Returns the jobs that bring nothing because what they read hangs: their splits take no room from others.
    fn held_up(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    /// Prepares a job, and then tells the shelf ([`Shelf::prepared`]).
    fn prepare(&self, shelf: &Arc<Shelf<Self>>, job: Arc<Job<Self::Prepared>>);

    /// Computes a split after all that came before it; `first` when a reader already waits for it.
    fn compute(&self, split: Arc<Held>, job: Arc<Self::Prepared>, run: u64, first: bool);
}

/// Threads that compute, and where jobs come from.
pub(crate) struct Threads {
    pub(crate) pool: Pool,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) functions: Arc<dyn Functions>,
    /// What pipelines may read here; `None` is what this machine's user may, for a reader of that user's own.
    pub(crate) sources: Option<Arc<[String]>>,
    /// Where chunks are made: from there they can be lent.
    pub(crate) memory: Memory,
    /// Where what is before `cache()` is kept, for all jobs.
    pub(crate) keeping: Option<CacheContext>,
    /// The same, to say how it is.
    pub(crate) cache: Option<Arc<Cache>>,
    /// What jobs with the same samples share.
    pub(crate) window: Arc<Window>,
}

impl Engine for Threads {
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
    fn prepare(&self, shelf: &Arc<Shelf>, job: Arc<Job>) {
        let (shelf, blobs) = (shelf.clone(), self.blobs.clone());
        let (functions, memory, keeping) = (self.functions.clone(), self.memory.clone(), self.keeping.clone());
        let sources = self.sources.clone();
        let window = self.window.clone();
        tokio::spawn(async move {
            let prepared = prepare(&job, &blobs, functions, sources, memory, keeping, &window).await;
            if let Ok(prepared) = &prepared {
                shelf.meter.ops.watch(job.definition.job, &prepared.executable);
            }
            shelf.prepared(&job, prepared);
        });
    }

    fn compute(&self, split: Arc<Held>, job: Arc<Prepared>, run: u64, first: bool) {
        self.pool.push(split, job, run, first);
    }
}
