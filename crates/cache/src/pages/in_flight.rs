//! Single flight of pages: one thread fetches a page from the store, and any number of threads wait for it.
//!
//! Invariants: each [`InFlight`] is completed exactly once, even if its fetch is dropped. The thread that completes it
//! never waits for another, so no two wait for each other.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use bytes::Bytes;
use forebay_core::{Error, WaitsFor, waiting};

use crate::lock::{lock, wait_for};

/// The result of a fetch.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// The page.
    Page(Bytes),
    /// The page should be on disk by now, or another process is fetching it: look again.
    LookAgain,
    /// The fetch failed.
    Failed(Error),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
}

impl InFlight {
    /// Delivers the outcome to all waiting threads. Only the first call has an effect.
    pub(super) fn complete(&self, outcome: Outcome) {
        lock(&self.outcome).get_or_insert(outcome);
        self.changed.notify_all();
    }

    /// Waits for the outcome; returns `None` when there is none by `until`.
    pub(super) fn wait(&self, until: Instant) -> Option<Outcome> {
        let outcome = lock(&self.outcome).clone();
        outcome.or_else(|| waiting(WaitsFor::Store, || wait_for(&self.outcome, &self.changed, until)))
    }
}
