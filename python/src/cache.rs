//! The cache of this process: opened when a pipeline with `cache()` or `autocache()`, or of remote files whose bytes are kept,
//! runs here first, and shared by all that do.

use std::sync::Mutex;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_exec::{Keeping, Rent, reads_remote};
use forebay_plan::{Graph, Source};
use forebay_server::CacheConfig;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::functions::lock;

/// How long a process that ends waits for the disk and the store.
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// How long whoever computes only to keep waits for room.
const EASE_MAX: Duration = Duration::from_secs(60);

/// The cache with what was found out of pipelines, and the process that opened it.
static CACHE: Mutex<Option<(u32, Keeping)>> = Mutex::new(None);

/// Returns where a pipeline keeps rows, if it says `cache()` or `autocache()`, or the bytes of its files. To be called without the
/// GIL.
///
/// # Errors
/// Invalid when a `FOREBAY_CACHE_*` variable is not what it should be.
pub(crate) fn keeping(graph: &Graph) -> Result<Option<Keeping>> {
    match graph.nodes().iter().any(|node| node.op.keeps_rows()) {
        true => open(&CacheConfig::from_env()?).map(Some),
        false => keeping_bytes(graph.source()),
    }
}

/// Returns where the bytes of a source's files are kept, if they are remote and a folder is named. To be called without the GIL.
///
/// # Errors
/// As [`keeping`].
pub(crate) fn keeping_bytes(source: &Source) -> Result<Option<Keeping>> {
    if !reads_remote(source) {
        return Ok(None);
    }
    let config = CacheConfig::from_env()?;
    config.keeps_sources().then(|| open(&config)).transpose()
}

fn open(config: &CacheConfig) -> Result<Keeping> {
    let mut cache = lock(&CACHE);
    let process = std::process::id();
    if let Some((owner, keeping)) = &*cache
        && *owner == process
    {
        return Ok(keeping.clone());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rent = config.prices.map_or_else(Rent::default, |prices| prices.rent(threads));
    let opened = Keeping { rent, ..Keeping::new(config.open(&warn)?) };
    // A forked child has the cache of its parent in memory, but none of the threads that may hold its locks.
    std::mem::forget(cache.replace((process, opened.clone())));
    Ok(opened)
}

/// Waits until what is computed next finds room on its way to be kept.
pub(crate) fn ease() {
    let kept =
        lock(&CACHE).as_ref().filter(|(owner, _)| *owner == std::process::id()).map(|(_, keeping)| keeping.clone());
    kept.into_iter().for_each(|keeping| keeping.cache.ease(EASE_MAX));
}

/// Writes what a later process would find, before this one ends.
pub(crate) fn flush() {
    if let Some((owner, keeping)) = &*lock(&CACHE)
        && *owner == std::process::id()
    {
        keeping.cache.flush(FLUSH_MAX);
    }
}

/// Tells the user. Where warnings are errors, this one is printed: nothing but speed is lost.
pub(crate) fn warn(error: &Error) {
    Python::attach(|py| {
        let category = py.get_type::<PyUserWarning>();
        let text = std::ffi::CString::new(error.to_string()).unwrap_or_default();
        if let Err(raised) = PyErr::warn(py, &category, &text, 1) {
            raised.write_unraisable(py, None);
        }
    });
}
