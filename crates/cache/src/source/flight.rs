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
pub(super) enum Landed {
    /// The page.
    Page(Bytes),
    /// It is to be found by now, or another process is at it: look again.
    LookAgain,
    /// It cannot be had.
    Failed(Error),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Flight {
    landed: Mutex<Option<Landed>>,
    changed: Condvar,
}

impl Flight {
    /// Tells all who wait; only the first call says anything.
    pub(super) fn land(&self, landed: Landed) {
        lock(&self.landed).get_or_insert(landed);
        self.changed.notify_all();
    }

    /// Waits for it; nothing when it has not landed by then.
    pub(super) fn wait(&self, until: Instant) -> Option<Landed> {
        wait_for(&self.landed, &self.changed, until)
    }
}
