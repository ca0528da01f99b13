//! A dispatcher with a page cache: workers with the same folder need not fetch the bytes that it read for an index.

use std::sync::Arc;

use forebay_cache::Cache;
use forebay_core::Result;
use forebay_dispatcher::{FileIndexer, Indexed, Indexer, Source};
use forebay_exec::PageCachedSource;
use forebay_io::{Allowed, ReadThrough};

/// See the module's documentation. Without a cache it stores nothing.
pub(crate) struct NearIndexer {
    pub(crate) files: FileIndexer,
    pub(crate) cache: Option<Arc<Cache>>,
}

impl Indexer for NearIndexer {
    fn index(
        &self,
        source: &Source,
        allowed: &Allowed,
        counted: bool,
        progress: &(dyn Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<Indexed> {
        let near = self.cache.as_ref().and_then(|cache| PageCachedSource::open(source, 0, cache));
        let near = near.as_ref().map(|near| near as &dyn ReadThrough);
        self.files.index_through(near, source, allowed, counted, progress)
    }
}
