//! What becomes of bytes that arrive: whoever waits has them at once, and the writer keeps them.
//!
//! Invariant: what was asked for lands, also where the thread that was to bring it is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use forebay_core::{Error, Result};

use super::claim::Claim;
use super::flight::{Flight, Landed};
use super::{Cell, PageKey};
use crate::shared::Shared;
use crate::stats::add;

/// A page that is to be written. Its claim is let go when it is.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(super) cell: Arc<Cell>,
    pub(super) key: PageKey,
    pub(super) bytes: Bytes,
    pub(super) claim: Option<Claim>,
}

/// A page of a run that was asked for.
pub(super) struct Expected {
    pub(super) key: PageKey,
    pub(super) len: usize,
    pub(super) flight: Arc<Flight>,
    pub(super) claim: Option<Claim>,
}

/// Pages that follow each other, asked for at once.
pub(super) struct Landing {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    pages: Vec<Expected>,
    began: Instant,
    /// Requests that were under way when this one began, and it.
    running: usize,
}

impl Landing {
    pub(super) fn new(shared: &Arc<Shared>, cell: &Arc<Cell>, pages: Vec<Expected>) -> Self {
        let running = shared.sources().running.fetch_add(1, Ordering::Relaxed) + 1;
        Self { shared: shared.clone(), cell: cell.clone(), pages, began: Instant::now(), running }
    }

    /// Hands the bytes over.
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
        // Requests share the way here: each takes its part of the time.
        let nanos = self.began.elapsed().as_nanos() as u64 / self.running as u64;
        self.shared.computed(self.cell.key, nanos, self.pages.len(), bytes.len() as u64);
        add(&self.cell.counters.fetched, bytes.len());
        let mut at = 0;
        for Expected { key, len, flight, claim } in std::mem::take(&mut self.pages) {
            let page = bytes.slice(at..at + len);
            at += len;
            let arrived = Arrived { cell: self.cell.clone(), key, bytes: page.clone(), claim };
            let sources = self.shared.sources();
            // First to the writer: whoever has the page and then flushes finds it written, and its claim let go.
            let is_kept = sources.queue.push(arrived, len as u64).is_ok();
            flight.land(Landed::Page(page));
            if !is_kept {
                sources.landed(&key);
                add(&self.cell.counters.not_kept, 1);
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        for page in std::mem::take(&mut self.pages) {
            self.shared.sources().landed(&page.key);
            page.flight.land(Landed::Failed(error.clone()));
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.shared.sources().running.fetch_sub(1, Ordering::Relaxed);
        if !self.pages.is_empty() {
            self.fail(&dropped());
        }
    }
}

/// A range that is not kept, asked for by one thread.
pub(super) struct Alone {
    pub(super) cell: Arc<Cell>,
    pub(super) flight: Arc<Flight>,
}

impl Alone {
    /// Hands the bytes over.
    pub(super) fn done(self, bytes: Result<Bytes>) {
        add(&self.cell.counters.fetched, bytes.as_ref().map_or(0, Bytes::len));
        self.flight.land(bytes.map_or_else(Landed::Failed, Landed::Page));
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Only the first landing says anything.
        self.flight.land(Landed::Failed(dropped()));
    }
}

fn dropped() -> Error {
    Error::internal("a read was dropped")
}
