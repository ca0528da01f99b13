//! The events of a simulation, in the order in which they happen.

use std::cmp::Ordering;

/// An event, and its job.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Begin(usize),
    /// Its step changes to the one at this place.
    Step(usize, usize),
    /// The cores that its trainer uses change to the entry at this place.
    Used(usize, usize),
    /// A window may be over.
    Look(usize),
    /// Its last batch is taken, unless its rates have changed since.
    End(usize, u64),
    /// Workers are ready.
    Ready,
    /// A worker is lost, unless their number has changed since.
    Lose(u64),
    /// No worker of a type is available any more.
    Away(usize),
    /// The fleet policy decides again.
    Fleet,
}

/// The greatest is next: the earliest, and at one moment the first that was planned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) at: f64,
    pub(super) order: u64,
    pub(super) what: What,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.order.cmp(&self.order))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}
