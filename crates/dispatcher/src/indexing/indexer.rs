//! Lists and indexes a job's source. A trait, so that tests need no files.

use std::path::PathBuf;

use forebay_core::Result;
use forebay_io::{Allowed, ReadThrough};
use forebay_plan::{Extent, Source};

use crate::options::Options;

/// The index of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexed {
    /// The bytes that every worker and consumer of the job will read.
    pub bytes: Vec<u8>,
    /// The size of the source.
    pub extent: Extent,
}

/// Lists and pins a source. Blocking.
pub trait Indexer: Send + Sync + 'static {
    /// Indexes an allowed source; when `counted`, finds every row. MUST call `progress` (done, total) often, and return
    /// its error.
    ///
    /// # Errors
    /// Reasons why the source cannot be read, naming the file; the error of `progress`.
    fn index(
        &self,
        source: &Source,
        allowed: &Allowed,
        counted: bool,
        progress: &(dyn Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<Indexed>;
}

/// Indexes the user's files.
#[derive(Debug, Clone)]
pub struct FileIndexer {
    /// The folder for the cache of indexed files.
    pub cache: PathBuf,
    /// Files that are read at a time.
    pub threads: usize,
}

impl FileIndexer {
    /// Returns the indexer for a dispatcher with these options.
    pub fn of(options: &Options) -> Self {
        Self { cache: options.state_dir.join("index-cache"), threads: options.index_threads }
    }

    /// As [`Indexer::index`]; remote files are read through `near`.
    ///
    /// # Errors
    /// Errors of [`Indexer::index`].
    pub fn index_through(
        &self,
        near: Option<&dyn ReadThrough>,
        source: &Source,
        allowed: &Allowed,
        counted: bool,
        progress: &(dyn Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<Indexed> {
        let index = forebay_io::index(source, allowed, counted, Some(&self.cache), near, self.threads, progress)?;
        Ok(Indexed { bytes: index.to_bytes(), extent: index.extent() })
    }
}

impl Indexer for FileIndexer {
    fn index(
        &self,
        source: &Source,
        allowed: &Allowed,
        counted: bool,
        progress: &(dyn Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<Indexed> {
        self.index_through(None, source, allowed, counted, progress)
    }
}
