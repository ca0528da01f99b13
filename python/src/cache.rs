//! The cache of this process: opened for the first pipeline with `cache()` or `autocache()`, or with remote files whose
//! bytes are cached, and shared by all later ones.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};
use forebay_exec::{CacheContext, Rent, reads_remote};
use forebay_plan::{Graph, Source};
use forebay_server::CacheConfig;
use pyo3::intern;
use pyo3::prelude::*;

use crate::functions::lock;

/// How long an ending process waits for writes to the disk and the store.
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// How long a process that computes only to fill the cache waits for room.
const EASE_MAX: Duration = Duration::from_secs(60);

/// The shortest time between two checks whether rows are cached.
const LOOK: Duration = Duration::from_secs(1);

/// The open cache, with its figures of pipelines.
struct Opened {
    /// The process that opened it.
    process: u32,
    /// The settings that it was opened with.
    config: CacheConfig,
    keeping: CacheContext,
}

static CACHE: Mutex<Option<Opened>> = Mutex::new(None);

/// The warnings that the user has had.
struct Warned {
    looked: Option<Instant>,
    disk: bool,
    store: bool,
    late: Option<CacheConfig>,
}

static WARNED: Mutex<Warned> = Mutex::new(Warned { looked: None, disk: false, store: false, late: None });

/// Returns the cache of a pipeline's rows, if it has `cache()` or `autocache()`, or of the bytes of its files. To be
/// called without the GIL.
///
/// # Errors
/// Invalid when a `FOREBAY_CACHE_*` variable is not valid.
pub(crate) fn keeping(graph: &Graph) -> Result<Option<CacheContext>> {
    match graph.nodes().iter().any(|node| node.op.is_cache_point()) {
        true => open(&CacheConfig::from_env()?).map(Some),
        false => keeping_bytes(graph.source()),
    }
}

/// Returns the cache of the bytes of a source's files, if they are remote and a folder is named. To be called without
/// the GIL.
///
/// # Errors
/// As [`keeping`].
pub(crate) fn keeping_bytes(source: &Source) -> Result<Option<CacheContext>> {
    if !reads_remote(source) {
        return Ok(None);
    }
    let config = CacheConfig::from_env()?;
    config.keeps_sources().then(|| open(&config)).transpose()
}

fn open(config: &CacheConfig) -> Result<CacheContext> {
    let mut cache = lock(&CACHE);
    let process = std::process::id();
    if let Some(opened) = &*cache
        && opened.process == process
    {
        let keeping = opened.keeping.clone();
        let error = too_late(&opened.config, config);
        drop(cache);
        error.iter().for_each(warn);
        return Ok(keeping);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rent = config.prices.map_or_else(Rent::default, |prices| prices.rent(threads));
    let opened = CacheContext { rent, ..CacheContext::new(config.open(&warn)?) };
    // A forked child has the cache of its parent in memory, but none of the threads that may hold its locks.
    std::mem::forget(cache.replace(Opened { process, config: config.clone(), keeping: opened.clone() }));
    Ok(opened)
}

/// Returns an error, once, if new settings name a place or a limit that differs from those of the open cache.
fn too_late(opened: &CacheConfig, now: &CacheConfig) -> Option<Error> {
    let differs = |was: Option<u64>, is: Option<u64>| is.is_some() && is != was;
    let is_other = !now.places.is_empty() && now.places != opened.places
        || differs(opened.memory, now.memory)
        || differs(opened.disk, now.disk)
        || differs(opened.store, now.store);
    if !is_other || lock(&WARNED).late.replace(now.clone()).as_ref() == Some(now) {
        return None;
    }
    let place = |config: &CacheConfig| match config.places.is_empty() {
        true => "memory alone".to_owned(),
        false => config.places.to_string(),
    };
    let message = "FOREBAY_CACHE, or another of its settings, came too late: the cache of this process is open already";
    let hint = "set it before the first pipeline with cache() runs; in a notebook, restart the kernel";
    Some(Error::invalid(message).with("kept in", place(opened)).with("set to", place(now)).hint(hint))
}

/// Warns the user, once for each place, when rows that should be cached are not. Checks every [`LOOK`], or at once if
/// `now`.
pub(crate) fn tell(now: bool) {
    let mut told = lock(&WARNED);
    if !now && told.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
        return;
    }
    told.looked = Some(Instant::now());
    // The thread that opens it may be waiting for the GIL, which the caller may have.
    let Ok(opened) = CACHE.try_lock() else { return };
    let Some(cache) = opened.as_ref().filter(|o| o.process == std::process::id()).map(|o| o.keeping.cache.clone())
    else {
        return;
    };
    drop(opened);
    let go_on = "they are computed again when they are needed, and it is tried again later: the stream is the same";
    let disk = cache.disk_stopped().filter(|_| !told.disk);
    let store = cache.store_stopped().filter(|_| !told.store);
    (told.disk, told.store) = (told.disk || disk.is_some(), told.store || store.is_some());
    drop(told);
    if let Some(why) = disk {
        let message = format!("rows are not kept in the cache's folder: {why}");
        warn(&Error::unavailable(message).hint(format!("give it room, or another folder; {go_on}")));
    }
    if let Some((url, why)) = store {
        let message = format!("rows are not kept in the cache's store {url}: {why}");
        warn(&Error::unavailable(message).hint(go_on));
    }
}

/// Waits until the queue for writing to the cache has room.
pub(crate) fn ease() {
    let kept = lock(&CACHE).as_ref().filter(|o| o.process == std::process::id()).map(|o| o.keeping.clone());
    kept.into_iter().for_each(|keeping| keeping.cache.ease(EASE_MAX));
}

/// Writes the rows that a later process can use, before this one ends.
pub(crate) fn flush() {
    if let Some(opened) = &*lock(&CACHE)
        && opened.process == std::process::id()
    {
        opened.keeping.cache.flush(FLUSH_MAX);
    }
}

/// Warns the user, at the current line. If warnings are errors, prints this one, because only speed is lost.
pub(crate) fn warn(error: &Error) {
    Python::attach(|py| {
        let warn =
            || py.import(intern!(py, "forebay._src.site"))?.call_method1(intern!(py, "warn"), (error.to_string(),));
        if let Err(raised) = warn() {
            raised.write_unraisable(py, None);
        }
    });
}
