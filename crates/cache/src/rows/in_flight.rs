//! One computes, others wait: what stands for rows that somebody is at.
//!
//! Invariants: a flight lands exactly once, when its claim is fulfilled or dropped, so nobody waits for somebody who is not
//! there; nobody who waits for it here holds a claim, so no two wait for each other. Peers that ask for its rows wait for it once
//! it is [settled](InFlight::settle), for then it waits for nobody; before, those of a higher rank do: so no two wait for each other.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::lock::{lock, wait_for};
use crate::rows::index::Number;
use crate::rows::table::Table;

/// What came of a flight.
#[derive(Debug, Default, Clone)]
pub(crate) struct Outcome {
    /// The rows, whether they are kept or not.
    pub(crate) table: Option<Table>,
    pub(crate) rows: HashMap<Number, u32>,
    pub(crate) filtered_out: HashSet<Number>,
}

/// Rows that are being computed.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Somebody waits, so the rows must be handed over.
    waited: AtomicBool,
    /// Peers were asked, and its rows are computed.
    committed: AtomicBool,
    /// Some of the rows are another's now: this one was late.
    overtaken: AtomicBool,
    outcome: Mutex<Option<std::sync::Arc<Outcome>>>,
    changed: Condvar,
}

impl InFlight {
    /// Says that somebody will wait. To be called while the index is locked.
    pub(crate) fn join(&self) {
        self.waited.store(true, Ordering::Relaxed);
    }

    /// A peer wants some of its rows, too; `peer_first` says who goes first where neither has begun. Returns whether the peer is to wait. To be
    /// called while the index is locked.
    pub(crate) fn is_asked(&self, peer_first: bool) -> bool {
        let waits = self.committed.load(Ordering::Acquire) || !peer_first;
        if waits {
            self.join();
        }
        waits
    }

    /// From now on its rows are computed, without waiting for anybody.
    pub(crate) fn commit(&self) {
        self.committed.store(true, Ordering::Release);
    }

    /// Says whether somebody waits. Final when the flight is no longer in the index.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited.load(Ordering::Relaxed)
    }

    /// Says that somebody else has taken rows over.
    pub(crate) fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    pub(crate) fn complete(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome.into());
        self.changed.notify_all();
    }

    /// Waits until it has landed; nothing when it has not by then.
    pub(crate) fn wait(&self, until: Instant) -> Option<std::sync::Arc<Outcome>> {
        wait_for(&self.outcome, &self.changed, until)
    }
}
