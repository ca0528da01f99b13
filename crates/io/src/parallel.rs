//! Parallel work on many files, with progress reports to the caller, who may cancel it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use forebay_core::{Error, Result};

use crate::store::{self, Found};

/// The interval of progress reports while no file is finished.
const TICK: Duration = Duration::from_millis(100);
/// The most files that are read in parallel.
const THREADS_MAX: usize = 256;
/// The least for files in a store: a thread mostly waits for answers there.
pub(crate) const REMOTE_THREADS: usize = 32;

/// Called on the caller's own thread during indexing (done, total, in files), at least every 100 ms. An error ends the
/// indexing with that error (Ctrl-C).
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> Result<()> + Sync);

/// Returns how many of these files are read in parallel for a caller with `threads` threads.
pub(crate) fn side_by_side(found: &[Found], threads: usize) -> usize {
    let is_remote = found.iter().any(|found| store::is_remote(&found.uri));
    if is_remote { threads.max(REMOTE_THREADS) } else { threads }
}

/// Ends a scan that was cancelled.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::internal("cancelled")) } else { Ok(()) }
}

/// Runs `work` on every item on `threads` threads, and returns the results in the items' order, or the first error in
/// that order among the errors that occurred. The calling thread only reports.
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
