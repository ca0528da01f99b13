//! Indexes sources: work that reads files, on threads that may never return.
//!
//! Invariants: an indexing ends when its last client leaves, and its place is free at once; a thread that hangs in a
//! system call is detached and counted; the work of one tenant or at one host delays no other (see `places`).

#![expect(clippy::disallowed_methods, reason = "each indexing has a thread, and is broken off when it stalls")]

mod indexer;
mod places;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_core::{Clock, Error, ErrorKind, Result};
use forebay_plan::Source;
use tokio::sync::{Notify, oneshot};

pub use indexer::{FileIndexer, Indexed, Indexer};
pub use places::IndexingFigures;
use places::{Id, Lane, Places, SILENT_MAX, STALLED_AFTER};

/// Leading folders of a path that name its place: mounts are seldom deeper.
const FOLDERS: usize = 2;

/// Runs indexings.
pub(crate) struct Indexings {
    clock: Arc<dyn Clock>,
    places: Mutex<Places>,
    /// Notified when an indexing has ended.
    freed: Notify,
}

/// The view of one indexing for its work.
pub(crate) struct Work {
    indexings: Arc<Indexings>,
    id: Id,
    /// Whether its client left, or the job was cancelled.
    is_abandoned: Arc<AtomicBool>,
}

/// The view of one indexing for its client. Dropping it abandons the indexing.
struct Wait {
    indexings: Arc<Indexings>,
    id: Id,
    is_abandoned: Arc<AtomicBool>,
}

impl Indexings {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, places: Mutex::default(), freed: Notify::new() }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn figures(&self) -> IndexingFigures {
        self.places().figures()
    }

    /// Runs `work`, which indexes a source of a tenant, once there is a place for it.
    ///
    /// # Errors
    /// Those of `work`; Exhausted when the tenant has too many indexings; Unavailable when no file was finished for a
    /// long time.
    ///
    /// # Cancel safety
    /// Dropping the future frees the place at once. The work ends at its next step.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        tenant: &Arc<str>,
        source: &Source,
        work: impl FnOnce(&Work) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let lane = Lane { tenant: tenant.clone(), host: host(source) };
        let id = self.places().ask(lane)?;
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let wait = Wait { indexings: self.clone(), id, is_abandoned: is_abandoned.clone() };
        loop {
            let freed = self.freed.notified();
            if self.places().begins(self.clock.now(), id) {
                break;
            }
            // A stalled indexing gives up its place, too.
            let _ = tokio::time::timeout(STALLED_AFTER / 4, freed).await;
        }
        let (done, mut result) = oneshot::channel();
        let own = Work { indexings: self.clone(), id, is_abandoned };
        // It gets a thread of its own: the runtime has few threads for blocking calls, and others need them.
        let run = move || {
            let did = work(&own);
            drop(own);
            let _ = done.send(did);
        };
        std::thread::Builder::new().name("forebay-index".to_owned()).spawn(run).inspect_err(|_| self.returned(id))?;
        loop {
            tokio::select! {
                did = &mut result => return did.unwrap_or_else(|_| Err(Error::internal("an indexing ended without a word"))),
                () = tokio::time::sleep(STALLED_AFTER) => {}
            }
            let silence = self.places().silence(self.clock.now(), id);
            if silence >= SILENT_MAX {
                drop(wait);
                return Err(silent(silence));
            }
        }
    }

    fn returned(&self, id: Id) {
        self.places().returned(id);
        self.freed.notify_waiters();
    }
}

impl Work {
    /// Notes how many files are done.
    ///
    /// # Errors
    /// Closed when the client left.
    pub(crate) fn progress(&self, done: u64) -> Result<()> {
        if self.is_abandoned.load(Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "no client waits for this job any more"));
        }
        self.indexings.places().progress(self.indexings.clock.now(), self.id, done);
        Ok(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.indexings.returned(self.id);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Relaxed);
        self.indexings.places().abandon(self.id);
        self.indexings.freed.notify_waiters();
    }
}

fn silent(silence: Duration) -> Error {
    let message = format!("the source was silent for {} s while it was indexed", silence.as_secs());
    Error::unavailable(message).hint("check that its files can be read on the dispatcher's machine")
}

/// Names where a source is read: the host of a url, or the first folders of a path.
fn host(source: &Source) -> String {
    let paths = source.paths();
    let Some(path) = paths.first() else { return String::new() };
    let (scheme, rest, parts) = match path.split_once("://") {
        Some((scheme, rest)) if scheme != "file" => (scheme, rest, 1),
        Some((_, rest)) => ("", rest, FOLDERS),
        None => ("", path.as_str(), FOLDERS),
    };
    let parts: Vec<_> = rest.split('/').filter(|part| !part.is_empty()).take(parts).collect();
    format!("{scheme}:{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::SystemClock;
    use std::sync::mpsc;

    fn files(path: &str) -> Source {
        Source::Files { paths: vec![path.to_owned()] }
    }

    #[test]
    fn a_host_is_where_the_bytes_come_from() {
        for (path, is) in [
            ("https://dead.example:80/a/b.tar", "https:dead.example:80"),
            ("s3://bucket/a/{0..9}.tar", "s3:bucket"),
            ("/mnt/nfs/a/b.tar", ":mnt/nfs"),
            ("file:///mnt/nfs/x.tar", ":mnt/nfs"),
            ("data/*.jpg", ":data/*.jpg"),
        ] {
            assert_eq!(host(&files(path)), is);
        }
        assert_eq!(host(&Source::Range { start: 0, stop: 1, step: 1 }), "");
    }

    #[tokio::test]
    async fn work_without_a_waiting_client_frees_its_place_and_is_counted_until_it_returns() {
        let indexings = Arc::new(Indexings::new(Arc::new(SystemClock::default())));
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let tenant: Arc<str> = "a".into();
        let source = files("/mnt/nfs/x");
        let stuck = indexings.run(&tenant, &source, move |work| {
            let _ = begun.send(());
            let _ = released.recv();
            work.progress(1)
        });
        let has_begun = tokio::task::spawn_blocking(move || begins.recv());
        tokio::select! {
            _ = stuck => panic!("it is stuck"),
            begins = has_begun => assert!(begins.is_ok_and(|begins| begins.is_ok())),
        }
        assert_eq!(indexings.figures(), IndexingFigures { running: 0, waiting: 0, detached: 1 });
        assert_eq!(indexings.run(&tenant, &source, |_| Ok(7)).await, Ok(7));
        drop(release);
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while indexings.figures().detached > 0 {
            assert!(std::time::Instant::now() < until, "its thread returned");
            tokio::task::yield_now().await;
        }
        let panicked: Result<()> = indexings.run(&tenant, &source, |_| panic!("in a decoder")).await;
        assert_eq!(
            (panicked.map_err(|e| e.kind()), indexings.figures()),
            (Err(ErrorKind::Internal), IndexingFigures::default())
        );
    }
}
