//! Reads from the store: arrived bytes go to the waiting threads at once, and to the writer.
//!
//! Invariant: every requested page is completed, even if its fetch is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use forebay_core::{Error, Result};

use crate::pages::claim::PageClaim;
use crate::pages::in_flight::{InFlight, Outcome};
use crate::pages::{PageKey, SourceState};
use crate::state::CacheState;
use crate::stats::add;

/// A page that waits to be written. Its claim is released when it is.
#[derive(Debug)]
pub(crate) struct ArrivedPage {
    pub(super) state: Arc<SourceState>,
    pub(super) key: PageKey,
    pub(super) bytes: Bytes,
    pub(super) claim: Option<PageClaim>,
}

/// A page of a run that is being fetched.
pub(super) struct ExpectedPage {
    pub(super) key: PageKey,
    pub(super) len: usize,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) claim: Option<PageClaim>,
}

/// A run of consecutive pages in one read.
pub(super) struct PendingFetch {
    cache: Arc<CacheState>,
    state: Arc<SourceState>,
    pages: Vec<ExpectedPage>,
    began: Instant,
    /// The number of running reads when this one began, including it.
    running: usize,
}

impl PendingFetch {
    pub(super) fn new(cache: &Arc<CacheState>, state: &Arc<SourceState>, pages: Vec<ExpectedPage>) -> Self {
        let running = cache.pages().running.fetch_add(1, Ordering::Relaxed) + 1;
        Self { cache: cache.clone(), state: state.clone(), pages, began: Instant::now(), running }
    }

    /// Delivers the bytes.
    pub(super) fn done(mut self, bytes: Result<Bytes>) {
        let wanted: usize = self.pages.iter().map(|page| page.len).sum();
        match bytes {
            Ok(bytes) if bytes.len() == wanted => self.keep(&bytes),
            Ok(bytes) => {
                self.fail(&Error::internal(format!("{} bytes came where {wanted} were asked for", bytes.len())))
            }
            Err(e) => self.fail(&e),
        }
    }

    fn keep(&mut self, bytes: &Bytes) {
        // Concurrent reads share the network: each counts its part of the time.
        let nanos = self.began.elapsed().as_nanos() as u64 / self.running as u64;
        self.cache.computed(self.state.key, nanos, self.pages.len(), bytes.len() as u64);
        add(&self.state.counters.fetched, bytes.len());
        let mut at = 0;
        for ExpectedPage { key, len, in_flight, claim } in std::mem::take(&mut self.pages) {
            let page = bytes.slice(at..at + len);
            at += len;
            let arrived = ArrivedPage { state: self.state.clone(), key, bytes: page.clone(), claim };
            let shared = self.cache.pages();
            // The writer gets it first: a thread that has the page and then flushes finds it written, and its claim
            // released.
            let is_kept = shared.queue.push(arrived, len as u64).is_ok();
            in_flight.complete(Outcome::Page(page));
            if !is_kept {
                shared.remove_in_flight(&key);
                add(&self.state.counters.not_kept, 1);
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        for page in std::mem::take(&mut self.pages) {
            self.cache.pages().remove_in_flight(&page.key);
            page.in_flight.complete(Outcome::Failed(error.clone()));
        }
    }
}

impl Drop for PendingFetch {
    fn drop(&mut self) {
        self.cache.pages().running.fetch_sub(1, Ordering::Relaxed);
        if !self.pages.is_empty() {
            self.fail(&dropped());
        }
    }
}

/// A range that is not kept, read for one thread.
pub(super) struct UncachedFetch {
    pub(super) state: Arc<SourceState>,
    pub(super) in_flight: Arc<InFlight>,
}

impl UncachedFetch {
    /// Delivers the bytes.
    pub(super) fn done(self, bytes: Result<Bytes>) {
        add(&self.state.counters.fetched, bytes.as_ref().map_or(0, Bytes::len));
        self.in_flight.complete(bytes.map_or_else(Outcome::Failed, Outcome::Page));
    }
}

impl Drop for UncachedFetch {
    fn drop(&mut self) {
        // Only the first outcome counts.
        self.in_flight.complete(Outcome::Failed(dropped()));
    }
}

fn dropped() -> Error {
    Error::internal("a read was dropped")
}
