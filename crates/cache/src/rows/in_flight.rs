//! Single flight: one caller computes rows, and the others wait for them.
//!
//! Invariants: an [`InFlight`] is completed exactly once, when its claim is fulfilled or dropped, so a caller never
//! waits for rows whose computation has ended. A waiting caller of this process holds no claim, so no two callers wait
//! for each other.
//!
//! A peer that requests the rows waits once they are [committed](InFlight::commit), because from then on their claim
//! waits for no process. Before that, only peers of a higher rank wait. So no two processes wait for each other.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::lock::{lock, wait_for};
use crate::rows::number::Number;
use crate::rows::table::Table;

/// The result of rows in flight.
#[derive(Debug, Default, Clone)]
pub(crate) struct Outcome {
    /// The rows, even if they are not kept.
    pub(crate) table: Option<Table>,
    pub(crate) rows: HashMap<Number, u32>,
    pub(crate) filtered_out: HashSet<Number>,
}

/// Rows that are being computed.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// A caller or a peer waits, so the rows must be handed over.
    waited: AtomicBool,
    /// Peers have answered: the rows are being computed here.
    committed: AtomicBool,
    /// Another claim took over some of the rows, because this one was late.
    overtaken: AtomicBool,
    outcome: Mutex<Option<std::sync::Arc<Outcome>>>,
    changed: Condvar,
}

impl InFlight {
    /// Records that a caller will wait. Call it while the index is locked.
    pub(crate) fn join(&self) {
        self.waited.store(true, Ordering::Relaxed);
    }

    /// Records that a peer requests some of the rows. `peer_first`: the peer goes first where neither has committed.
    /// Returns whether the peer waits. Call it while the index is locked.
    pub(crate) fn is_asked(&self, peer_first: bool) -> bool {
        let waits = self.committed.load(Ordering::Acquire) || !peer_first;
        if waits {
            self.join();
        }
        waits
    }

    /// Records that the rows are computed from now on, without waiting for any process.
    pub(crate) fn commit(&self) {
        self.committed.store(true, Ordering::Release);
    }

    /// Says whether a caller or a peer waits. Final once the rows are no longer in flight in the index.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited.load(Ordering::Relaxed)
    }

    /// Records that another claim has taken rows over.
    pub(crate) fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// Delivers the outcome to all waiting callers.
    pub(crate) fn complete(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome.into());
        self.changed.notify_all();
    }

    /// Waits for the outcome; returns `None` when there is none by `until`.
    pub(crate) fn wait(&self, until: Instant) -> Option<std::sync::Arc<Outcome>> {
        wait_for(&self.outcome, &self.changed, until)
    }
}
