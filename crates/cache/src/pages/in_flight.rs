//! A page on its way from the store: one thread asked for it, any number wait.
//!
//! Invariants: a flight lands exactly once, also where whoever was to bring it is gone; what lands it is never a thread that
//! waits for another flight, so no two hold each other up.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use bytes::Bytes;
use forebay_core::Error;

use crate::lock::{lock, wait_for};

/// What came of a flight.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// The page.
    Page(Bytes),
    /// It is to be found by now, or another process is at it: look again.
    LookAgain,
    /// It cannot be had.
    Failed(Error),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
}

impl InFlight {
    /// Tells all who wait; only the first call says anything.
    pub(super) fn complete(&self, outcome: Outcome) {
        lock(&self.outcome).get_or_insert(outcome);
        self.changed.notify_all();
    }

    /// Waits for it; nothing when it has not landed by then.
    pub(super) fn wait(&self, until: Instant) -> Option<Outcome> {
        wait_for(&self.outcome, &self.changed, until)
    }
}
