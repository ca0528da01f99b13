//! A page on its way from the store: one thread asked for it, any number wait.
//!
//! Invariants: a flight lands exactly once, also where whoever was to bring it is gone; what lands it is never a thread that
//! waits for another flight, so no two hold each other up.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use bytes::Bytes;
use forebay_core::Error;

use crate::lock::lock;

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
        let mut landed = lock(&self.landed);
        loop {
            if let Some(landed) = &*landed {
                return Some(landed.clone());
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            let woken = self.changed.wait_timeout(landed, left);
            landed = woken.map_or_else(|e| e.into_inner().0, |(landed, _)| landed);
        }
    }
}
