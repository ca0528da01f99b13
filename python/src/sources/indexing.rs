//! Lists and counts the files of a source, with a progress line on a terminal.
//!
//! Files in a store are listed once for a dataset and all datasets made from it ([`Listing`]), as a service lists them
//! once for a job.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_cli::Progress;
use forebay_core::Result;
use forebay_exec::PageCachedSource;
use forebay_io::{ReadThrough, SourceIndex, is_remote};
use forebay_plan::Source;
use forebay_server::CachePlaces;
use pyo3::intern;
use pyo3::prelude::*;

/// The most indexes of one dataset: counted or not, and by the part of its files that is used.
const LISTED_MAX: usize = 8;

/// The listed files of a dataset in a store. All its epochs use the same files, and only the first waits for the
/// listing; files on a disk are listed for each epoch. Clones are the same listing.
#[derive(Clone, Default)]
pub(crate) struct Listing {
    listed: Arc<Mutex<Vec<Listed>>>,
    /// The bytes of all files at the last iteration of each part of the source.
    bytes: Arc<Mutex<Vec<(Source, u64)>>>,
}

struct Listed {
    source: Source,
    counted: bool,
    index: SourceIndex,
}

impl Listing {
    /// Indexes the dataset's source, unless that was done.
    pub(crate) fn index(
        &self,
        source: &Source,
        counted: bool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<SourceIndex> {
        if !source.paths().iter().any(|path| is_remote(path)) {
            return index(source, counted, poll);
        }
        if let Some(listed) = self.lock().iter().find(|l| l.counted == counted && l.source == *source) {
            return Ok(listed.index.clone());
        }
        let index = index(source, counted, poll)?;
        let mut all = self.lock();
        all.truncate(LISTED_MAX - 1);
        all.insert(0, Listed { source: source.clone(), counted, index: index.clone() });
        Ok(index)
    }

    /// Notes the bytes of the source's files at the start of an iteration, in process or of a job. Warns if they differ
    /// from those at the start of the last iteration.
    pub(crate) fn warn_of_changes(&self, py: Python<'_>, source: &Source, now: u64) -> PyResult<()> {
        if source.paths().is_empty() {
            return Ok(());
        }
        if let Some(before) = self.changed_bytes(source, now) {
            let module = py.import(intern!(py, "forebay._src.iteration.changed_files"))?;
            module.call_method1(intern!(py, "warn_of_bytes"), (before, now))?;
        }
        Ok(())
    }

    /// Notes the bytes at the start of an iteration. Returns the bytes at the start of the last one, if they differ.
    fn changed_bytes(&self, source: &Source, now: u64) -> Option<u64> {
        let mut seen = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.iter().position(|(of, _)| of == source).map(|at| seen.remove(at).1);
        seen.truncate(LISTED_MAX - 1);
        seen.insert(0, (source.clone(), now));
        before.filter(|before| *before != now)
    }

    /// Lists the files again the next time: reading failed, and they may have changed.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listed>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Indexes a source as a dispatcher does, so that both have the same plan. Bytes of remote files that it reads are
/// cached.
fn index(source: &Source, counted: bool, poll: &mut dyn FnMut() -> Result<()>) -> Result<SourceIndex> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (cache, kept) = (cache_folder()?, crate::cache::keeping_bytes(source)?);
    let near = kept.and_then(|kept| PageCachedSource::open(source, 0, &kept.cache));
    let near = near.as_ref().map(|near| near as &dyn ReadThrough);
    followed("indexing", poll, |progress| {
        forebay_io::index(
            source,
            &forebay_io::Allowed::everything(),
            counted,
            cache.as_deref(),
            near,
            threads,
            progress,
        )
    })
}

/// Runs work on many files, with a progress line, until `poll` fails.
pub(crate) fn followed<T>(
    what: &'static str,
    poll: &mut dyn FnMut() -> Result<()>,
    work: impl FnOnce(forebay_io::Progress<'_>) -> Result<T>,
) -> Result<T> {
    let line = Progress::new(what, "files");
    // `progress` is called on this thread alone, but must be shareable.
    let poll = Mutex::new(Polled(poll));
    work(&|done: u64, total: u64| {
        line.show(done, total);
        match poll.try_lock() {
            Ok(mut poll) => (poll.0)(),
            Err(_) => Ok(()),
        }
    })
}

/// Returns the progress line of indexing, here or at a dispatcher.
pub(crate) fn progress_line() -> Progress {
    Progress::new("indexing", "files")
}

struct Polled<'a>(&'a mut dyn FnMut() -> Result<()>);

// SAFETY: `forebay_io` calls `progress` on the thread that called it, which is the one that `poll` belongs to.
unsafe impl Send for Polled<'_> {}

/// Returns the folder for indexes between runs: `$FOREBAY_CACHE/index`, if that names a folder, else the user's cache
/// folder; none without a home.
fn cache_folder() -> Result<Option<PathBuf>> {
    let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = CachePlaces::from_env()?
        .folder
        .or_else(|| folder("XDG_CACHE_HOME").map(|p| p.join("forebay")))
        .or_else(|| folder("HOME").map(|p| p.join(".cache/forebay")));
    Ok(base.map(|base| base.join("index")))
}
