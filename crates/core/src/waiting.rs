//! Tells the pool of a thread that the thread waits, so that another one computes in its place meanwhile.
//!
//! The pool of a worker gives each of its threads a [`Waiting`]. Threads without one, as those of a local iterator, only
//! wait. Invariant: a wait decides when rows are computed, never which.

use std::cell::RefCell;
use std::rc::Rc;

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// The answer of a store.
    Store,
    /// The result of another thread or process.
    Thread,
}

/// The pool of a thread.
pub trait Waiting {
    /// Runs `wait`, during which the thread does not compute.
    fn wait(&self, waits_for: WaitsFor, wait: &mut dyn FnMut());
}

thread_local! {
    static WAITING: RefCell<Option<Rc<dyn Waiting>>> = const { RefCell::new(None) };
}

/// Sets the pool of this thread.
pub fn set_waiting(waiting: Rc<dyn Waiting>) {
    WAITING.set(Some(waiting));
}

/// Runs `wait`, during which this thread does not compute. A wait within another one is a part of it.
pub fn waiting<T>(waits_for: WaitsFor, wait: impl FnOnce() -> T) -> T {
    let Some(pool) = WAITING.take() else { return wait() };
    let again = Again(pool);
    let (mut wait, mut done) = (Some(wait), None);
    again.0.wait(waits_for, &mut || done = wait.take().map(|wait| wait()));
    match (done, wait) {
        (Some(done), _) => done,
        (None, Some(wait)) => wait(),
        (None, None) => unreachable!("`wait` was taken, so it has run"),
    }
}

/// Sets the pool again after a wait, even after a panic.
struct Again(Rc<dyn Waiting>);

impl Drop for Again {
    fn drop(&mut self) {
        WAITING.set(Some(self.0.clone()));
    }
}
