//! Makes an index: lists the files, asks each for its identity and, when rows are counted, reads what tells its rows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_plan::Source;

use super::table::{Counted, Table};
use super::{Inner, Layout, SourceIndex, cache};
use crate::formats::{arrow, compressed, lines, parquet, tar, tfrecord};
use crate::store::{self, Forward, Found, Object, Stat};
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
    let (found, labels, layout) = list(source, counted)?;
    found.iter().try_for_each(|found| allowed.check(&found.uri))?;
    let needs_tables = matches!(layout, Layout::PerFile { counted: true } | Layout::Groups);
    let format = format_of(source);
    let one = |found: &Found, stop: &AtomicBool| -> Result<(Stat, Option<Counted>)> {
        let stat = found.stat.clone().map_or_else(|| store::stat(&found.uri, allowed), Ok)?;
        if !needs_tables {
            return Ok((stat, None));
        }
        if let Some(counted) = cache.and_then(|folder| cache::load(folder, &found.uri, &format, &stat)) {
            return Ok((stat, Some(counted)));
        }
        let counted = scan(source, Object::open(&found.uri, &stat, near, allowed)?.into(), stop)?;
        if let Some(folder) = cache {
            cache::keep(folder, &found.uri, &format, &stat, &counted);
        }
        Ok((stat, Some(counted)))
    };
    let is_remote = found.iter().any(|found| store::is_remote(&found.uri));
    let threads = if is_remote { threads.max(REMOTE_THREADS) } else { threads };
    let done = for_each(&found, threads, progress, one)?;
    let mut inner = Inner { layout, labels, ..Inner::default() };
    for (found, (stat, counted)) in found.into_iter().zip(done) {
        inner.uris.push(found.uri.into());
        inner.stats.push(stat);
        if let Some(Counted { table, points }) = counted {
            inner.tables.push(table);
            inner.points.push(points);
        }
    }
    SourceIndex::new(inner)
}

/// Lists a source's files, their labels, and says how rows lie in blocks.
fn list(source: &Source, counted: bool) -> Result<(Vec<Found>, Vec<u64>, Layout)> {
    if let Some(rows) = source.rows() {
        let row_bytes = source.schema()?.row_bytes(64) as u64;
        return Ok((Vec::new(), Vec::new(), Layout::Computed { rows, row_bytes }));
    }
    Ok(match source {
        Source::Files { paths } => (store::list(paths)?, Vec::new(), Layout::Files),
        Source::ImageFolder { root } => {
            let (found, labels) = crate::formats::image_folder::list(root)?;
            (found, labels, Layout::Files)
        }
        Source::Parquet { paths, .. } | Source::Arrow { paths, .. } => {
            (store::list(paths)?, Vec::new(), Layout::Groups)
        }
        Source::Tar { paths, .. }
        | Source::Tfrecord { paths, .. }
        | Source::Text { paths }
        | Source::Jsonl { paths, .. } => (store::list(paths)?, Vec::new(), Layout::PerFile { counted }),
        Source::Generator { .. } if counted => {
            return Err(
                Error::invalid("a generator cannot be counted").hint("use from_map_dataset, or write it to files")
            );
        }
        _ => (Vec::new(), Vec::new(), Layout::Unknown),
    })
}

/// Names what a table depends on besides the file.
fn format_of(source: &Source) -> String {
    match source {
        Source::Tar { extensions, .. } => format!("tar:{}", extensions.join("\0")),
        Source::Tfrecord { verify, .. } => format!("tfrecord:{verify}"),
        Source::Parquet { .. } => "parquet".to_owned(),
        Source::Arrow { .. } => "arrow".to_owned(),
        Source::Jsonl { .. } => "jsonl".to_owned(),
        _ => "lines".to_owned(),
    }
}

/// Finds the rows of one file. Long scans look at `stop` now and then.
fn scan(source: &Source, object: Arc<Object>, stop: &AtomicBool) -> Result<Counted> {
    let (table, forward) = match source {
        Source::Parquet { .. } => (Table::Groups(parquet::group_rows(object)?), None),
        Source::Arrow { .. } => (Table::Groups(arrow::group_rows(object)?), None),
        Source::Tar { extensions, .. } => {
            let (table, forward) = tar::table(recording(compressed::skipping(object)?), extensions, stop)?;
            (Table::Tar(table), Some(forward))
        }
        Source::Tfrecord { verify, .. } => {
            let mut forward = recording(Forward::skipping(object).unpacked(tfrecord::codec)?);
            (Table::Frames(tfrecord::starts(&mut forward, *verify, stop)?), Some(forward))
        }
        _ => {
            let blank_end = !matches!(source, Source::Jsonl { .. });
            let mut forward = recording(compressed::reading(object)?);
            (Table::Frames(lines::starts(&mut forward, blank_end, stop)?), Some(forward))
        }
    };
    let mut forward = forward;
    let points = forward.as_mut().and_then(Forward::decoded).map(|decoded| decoded.finish()).transpose()?;
    Ok(Counted { table: table.into(), points })
}

/// Looks for access points, if the file is compressed.
fn recording(mut forward: Forward) -> Forward {
    if let Some(decoded) = forward.decoded() {
        decoded.record();
    }
    forward
}

/// Ends a scan that nobody waits for.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::internal("cancelled")) } else { Ok(()) }
}

/// Runs `work` on every item on `threads` threads, and returns the results in the items' order, or the first error in
/// that order among those that were met. The calling thread only reports.
fn for_each<I: Sync, O: Send>(
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
