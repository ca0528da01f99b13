//! `forebay cache warm URL...`: reads remote files into the page cache ahead of their use.

use std::time::Duration;

use forebay_cache::Cache;
use forebay_core::{Error, Result};
use forebay_io::Progress;
use forebay_plan::Source;

use crate::cached::page_cached::{PageCachedSource, reads_remote};

/// The number of files whose sizes are requested at the same time.
const THREADS: usize = 16;
/// How long the disk may take to write the fetched pages.
const FLUSH_MAX: Duration = Duration::from_secs(600);

/// The result of [`warm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmReport {
    /// The number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were fetched from the remote store.
    pub fetched: u64,
    /// Bytes that were on disk already, with the right checksum.
    pub found: u64,
    /// Pages that were fetched but not kept, because the disk or its quota is full.
    pub pages_not_kept: u64,
}

/// Reads all files that match `urls` (with globs and braces) into a cache. Reports bytes to `progress`.
///
/// # Errors
/// Invalid where a URL is a local path, or the cache keeps no pages; any error of listing or reading.
pub fn warm(urls: &[String], cache: &Cache, progress: Progress<'_>) -> Result<WarmReport> {
    for url in urls {
        if !reads_remote(&Source::Files { paths: vec![url.clone()] }) {
            return Err(Error::invalid(format!("{url:?} is on this machine already")).hint("name urls alone"));
        }
    }
    let source = Source::Files { paths: urls.to_vec() };
    let index = forebay_io::index(&source, &forebay_io::Allowed::everything(), false, None, None, THREADS, &|_, _| {
        progress(0, 0)
    })?;
    let files = PageCachedSource::open(&source, index.bytes(), cache).ok_or_else(|| {
        Error::invalid("this cache keeps no bytes of remote files")
            .hint("name a folder that can be written to, and leave --cache-source on")
    })?;
    forebay_io::bring(&index, &files, progress)?;
    cache.flush(FLUSH_MAX);
    let counts = files.stats().counts;
    Ok(WarmReport {
        files: index.files().len() as u64,
        bytes: index.bytes(),
        fetched: counts.fetched,
        found: counts.from_disk,
        pages_not_kept: counts.not_kept,
    })
}
