//! The turns of a task on its thread: between two rows of a morsel, or two chunks of a source block, it lets consumers
//! compute that have waited longer.
//!
//! The thread of the task waits, and another thread computes in its place. The task is an entry of the queue meanwhile,
//! in front of its consumer's later splits. So a new consumer waits for one row or [`SLICE`] of other consumers, however
//! long their morsels are. Only the time in which a task computes is charged to its consumer, not that of waiting.
//!
//! [`Schedule`] decides: it is the pool. Bound: a task pauses only while there is a thread in its place, of which the pool
//! bounds the number.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use forebay_core::{Waiting, WaitsFor};
use forebay_exec::{Preemption, add_waited};

use crate::compute::fair_queue::{Charge, Flow, Share};
use crate::compute::watchdog::TaskId;

/// How long a task computes before it looks whether another consumer has waited longer.
const SLICE: Duration = Duration::from_millis(10);

thread_local! {
    /// The turn of this thread's task; `None` while it has none, or helps another thread.
    static CURRENT: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// A task whose thread waits for its turn.
pub(crate) struct Paused {
    pub(crate) id: TaskId,
    /// As of its split.
    pub(crate) order: u64,
}

/// The current part of a task, from one turn to the next.
pub(crate) struct Turn {
    pub(crate) id: TaskId,
    pub(crate) flow: Flow,
    pub(crate) share: Share,
    pub(crate) order: u64,
    /// The charge for this part; `None` while a block waits for its consumer.
    pub(crate) charge: Option<Charge>,
    /// When the part began.
    pub(crate) since: Instant,
    /// It may wait between two rows: other threads do not wait for its announced window.
    pub(crate) is_free: bool,
}

impl Turn {
    /// Makes it the turn of this thread's task.
    pub(crate) fn begin(self) {
        CURRENT.set(Some(self));
    }

    /// Runs `run` with the turn of this thread's task; returns `None` if it has none.
    pub(crate) fn with<T>(run: impl FnOnce(&mut Self) -> T) -> Option<T> {
        CURRENT.with_borrow_mut(|turn| turn.as_mut().map(run))
    }

    /// Ends the turn of this thread's task, and returns it.
    pub(crate) fn end() -> Option<Self> {
        CURRENT.take()
    }
}

/// The pool, as the turns of its threads see it.
pub(crate) trait Schedule {
    /// Ends a part of a task, and begins the next one once it is its turn. Returns how long it has waited.
    fn next_turn(&self, turn: &mut Turn) -> Duration;

    /// Runs `wait`, during which the thread does not compute.
    fn wait(&self, waits_for: WaitsFor, wait: &mut dyn FnMut());
}

/// The turns of one thread of a pool, for the rows of its tasks.
pub(crate) struct ThreadPreemption<S> {
    pub(crate) schedule: S,
    pub(crate) started: Instant,
}

impl<S: Schedule> Preemption for ThreadPreemption<S> {
    fn nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn between_rows(&self) {
        let waited = Turn::with(|turn| {
            let is_over = turn.is_free && turn.since.elapsed() >= SLICE;
            if is_over { self.schedule.next_turn(turn) } else { Duration::ZERO }
        });
        add_waited(waited.unwrap_or_default().as_nanos() as u64);
    }
}

impl<S: Schedule> Waiting for ThreadPreemption<S> {
    fn wait(&self, waits_for: WaitsFor, wait: &mut dyn FnMut()) {
        self.schedule.wait(waits_for, wait);
    }
}
