//! `forebay cache warm URL...`: remote files brought into a cache, before anybody needs them.

use std::time::Duration;

use forebay_cache::Cache;
use forebay_core::{Error, Result};
use forebay_io::Progress;
use forebay_plan::Source;

use crate::nearby::{Nearby, reads_remote};

/// Files that are asked for their sizes together.
const THREADS: usize = 16;
/// How long what was fetched may take to be written.
const FLUSH_MAX: Duration = Duration::from_secs(600);

/// What became of remote files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brought {
    /// The files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that came from the store.
    pub fetched: u64,
    /// Bytes that were there, and are what was written.
    pub found: u64,
    /// Pages that were fetched and not kept: the disk is full, or its quota is.
    pub pages_not_kept: u64,
}

/// Brings the files that `urls` (with globs and braces) stand for into a cache, whole. `progress` is told bytes.
///
/// # Errors
/// Invalid where an address is a path of this machine, or the cache keeps no bytes; what listing and reading give.
pub fn bring(urls: &[String], cache: &Cache, progress: Progress<'_>) -> Result<Brought> {
    for url in urls {
        if !reads_remote(&Source::Files { paths: vec![url.clone()] }) {
            return Err(Error::invalid(format!("{url:?} is on this machine already")).hint("name urls alone"));
        }
    }
    let source = Source::Files { paths: urls.to_vec() };
    let index = forebay_io::index(&source, &forebay_io::Allowed::everything(), false, None, None, THREADS, &|_, _| {
        progress(0, 0)
    })?;
    let near = Nearby::open(&source, index.bytes(), cache).ok_or_else(|| {
        Error::invalid("this cache keeps no bytes of remote files")
            .hint("name a folder that can be written to, and leave --cache-source on")
    })?;
    forebay_io::bring(&index, &near, progress)?;
    cache.flush(FLUSH_MAX);
    let counts = near.stats().counts;
    Ok(Brought {
        files: index.files().len() as u64,
        bytes: index.bytes(),
        fetched: counts.fetched,
        found: counts.from_disk,
        pages_not_kept: counts.not_kept,
    })
}
