//! Makes an index: lists the files, asks each for its identity and, when rows are counted, reads what tells its rows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_plan::Source;

use super::table::Counted;
use super::{Inner, Layout, SourceIndex, cache};
use crate::sources::{FileAccess, FileRows, FileToScan, Listed, format_of};
use crate::store::{self, Found, Stat};
use crate::{Allowed, Progress, ReadThrough};

/// How often the caller hears of progress while nothing is done.
const TICK: Duration = Duration::from_millis(100);
/// The most files that are looked at together.
const THREADS_MAX: usize = 256;
/// Of files in a store, so many at least: who looks at one mostly waits for answers.
const REMOTE_THREADS: usize = 32;

pub(crate) fn build(
    source: &Source,
    allowed: &Allowed,
    counted: bool,
    cache: Option<&Path>,
    near: Option<&dyn ReadThrough>,
    threads: usize,
    progress: Progress<'_>,
) -> Result<SourceIndex> {
    source.paths().iter().try_for_each(|path| allowed.check_pattern(path))?;
    let (format, access) = (format_of(source), FileAccess { allowed, near });
    let Listed { found, labels, layout, tables, rows, check } = format.list(counted, access)?;
    found.iter().try_for_each(|found| allowed.check(&found.uri))?;
    let needs_tables = matches!(layout, Layout::PerFile { counted: true } | Layout::Groups) && tables.is_empty();
    let rows = rows.filter(|_| needs_tables);
    let one = |&(place, found): &(usize, &Found), stop: &AtomicBool| -> Result<(Stat, Option<Counted>)> {
        let stat = access.stat(found)?;
        let file = FileToScan { uri: &found.uri, stat: &stat, access };
        let rows = rows.as_ref().map(|rows| rows(place, &file)).transpose()?;
        let counted = rows.map(|rows| count(rows, &file, cache, stop)).transpose()?;
        Ok((stat, counted))
    };
    let numbered: Vec<_> = found.iter().enumerate().collect();
    let done = for_each(&numbered, side_by_side(&found, threads), progress, one)?;
    let mut inner = Inner { layout, labels, tables, ..Inner::default() };
    for (place, (found, (stat, counted))) in found.into_iter().zip(done).enumerate() {
        if let Some((table, check)) = inner.tables.get(place).zip(check.as_ref()) {
            check(&found.uri, &stat, table)?;
        }
        inner.uris.push(found.uri.into());
        inner.stats.push(stat);
        if let Some(Counted { table, points }) = counted {
            inner.tables.push(table);
            inner.points.push(points);
        }
    }
    SourceIndex::new(inner)
}

/// Finds the rows of one file: as known, from the cache, or by reading it.
fn count(rows: FileRows<'_>, file: &FileToScan<'_>, cache: Option<&Path>, stop: &AtomicBool) -> Result<Counted> {
    let (key, scan) = match rows {
        FileRows::Known(counted) => return Ok(counted),
        FileRows::Scan { key, scan } => (key, scan),
    };
    if let Some(counted) = cache.and_then(|folder| cache::load(folder, file.uri, &key, file.stat)) {
        return Ok(counted);
    }
    let counted = scan(file, stop)?;
    if let Some(folder) = cache {
        cache::keep(folder, file.uri, &key, file.stat, &counted);
    }
    Ok(counted)
}

/// Returns how many of these files are looked at together, by a caller who has so many threads.
pub(crate) fn side_by_side(found: &[Found], threads: usize) -> usize {
    let is_remote = found.iter().any(|found| store::is_remote(&found.uri));
    if is_remote { threads.max(REMOTE_THREADS) } else { threads }
}

/// Ends a scan that nobody waits for.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::internal("cancelled")) } else { Ok(()) }
}

/// Runs `work` on every item on `threads` threads, and returns the results in the items' order, or the first error in
/// that order among those that were met. The calling thread only reports.
pub(crate) fn for_each<I: Sync, O: Send>(
    items: &[I],
    threads: usize,
    progress: Progress<'_>,
    work: impl Fn(&I, &AtomicBool) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let total = items.len() as u64;
    let results: Mutex<Vec<Option<Result<O>>>> = Mutex::new(items.iter().map(|_| None).collect());
    let (next, done, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (send, finished) = mpsc::channel::<()>();
    let cancelled = std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, THREADS_MAX).min(items.len()) {
            let send = send.clone();
            let (results, next, done, stop, work) = (&results, &next, &done, &stop, &work);
            scope.spawn(move || {
                let _send = send;
                while !stop.load(Ordering::Relaxed) {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let result = work(item, stop);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(result);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        drop(send);
        loop {
            let over = !matches!(finished.recv_timeout(TICK), Err(mpsc::RecvTimeoutError::Timeout));
            if let Err(e) = progress(done.load(Ordering::Relaxed), total) {
                stop.store(true, Ordering::Relaxed);
                return Err(e);
            }
            if over {
                return Ok(());
            }
        }
    });
    cancelled?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut outputs = Vec::with_capacity(items.len());
    let mut unfinished = None;
    for result in results {
        match result {
            Some(Ok(output)) => outputs.push(output),
            Some(Err(e)) if e.kind() == forebay_core::ErrorKind::Internal => unfinished = unfinished.or(Some(e)),
            Some(Err(e)) => return Err(e),
            None => {}
        }
    }
    if outputs.len() < items.len() {
        return Err(unfinished.unwrap_or_else(|| Error::internal("a file was not indexed")));
    }
    Ok(outputs)
}
