//! Lets the thread that computes a morsel wait between two rows while another job has its turn.
//!
//! A worker's threads serve several jobs, and a morsel may take seconds. So the pool of a worker gives each of its
//! threads a [`Preemption`], and ops call [`between_rows`] where no row is half done and this thread holds no lock. Threads
//! without one, as those of a local iterator, never wait here.
//!
//! Invariant: waiting decides when rows are computed, never which, and no row depends on its neighbours in a call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use forebay_core::Stopwatch;

/// Decides how long a thread computes before another job has its turn.
pub trait Preemption {
    /// Returns the nanoseconds of a clock that only rises.
    fn nanos(&self) -> u64;

    /// Waits while it is the turn of another job.
    fn between_rows(&self);
}

thread_local! {
    static PREEMPTION: RefCell<Option<Rc<dyn Preemption>>> = const { RefCell::new(None) };
    /// The nanoseconds that this thread has waited for its turn.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Sets the preemption of this thread.
pub fn set_preemption(preemption: Rc<dyn Preemption>) {
    PREEMPTION.set(Some(preemption));
}

/// Returns the preemption of this thread, if it has one.
pub(crate) fn preemption() -> Option<Rc<dyn Preemption>> {
    PREEMPTION.with_borrow(Clone::clone)
}

/// Waits while it is the turn of another job.
pub(crate) fn between_rows() {
    if let Some(preemption) = preemption() {
        preemption.between_rows();
    }
}

/// Records that this thread has waited for its turn.
pub fn add_waited(nanos: u64) {
    WAITED.set(WAITED.get() + nanos);
}

/// Returns the nanoseconds that this thread has waited for its turn so far. They are no cost of the rows.
pub fn waited() -> u64 {
    WAITED.get()
}

/// Returns the time of a watch without the time that this thread has waited for its turn.
pub(crate) fn own_nanos(watch: &dyn Stopwatch) -> u64 {
    watch.nanos().saturating_sub(waited())
}
