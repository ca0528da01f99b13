//! How a job's source is listed and pinned. A seam, so that tests need no files.

use std::path::PathBuf;

use forebay_core::Result;
use forebay_io::{Allowed, ReadThrough};
use forebay_plan::{Extent, Source};

use crate::options::Options;

/// What there is to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexed {
    /// The source index, as every worker and consumer of the job will read it.
    pub bytes: Vec<u8>,
    /// Its size.
    pub extent: Extent,
}

/// Lists and pins a source. Blocking.
pub trait Indexer: Send + Sync + 'static {
    /// Indexes a source, within what is allowed; when `counted`, finds every row. MUST call `progress` (done, total)
    /// often, and return the error that it returns.
    ///
    /// # Errors
    /// Whatever keeps the source from being read, naming the file; what `progress` returns.
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
    /// Where to keep what was found in a file.
    pub cache: PathBuf,
    /// Files that are looked at together.
    pub threads: usize,
}

impl FileIndexer {
    /// Returns what indexes for a dispatcher of these options.
    pub fn of(options: &Options) -> Self {
        Self { cache: options.state_dir.join("index-cache"), threads: options.index_threads }
    }

    /// As [`Indexer::index`]; what is read of remote files is read through `near`.
    ///
    /// # Errors
    /// As [`Indexer::index`].
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
