//! Orders deliveries around the batches that must be durable before them.
//!
//! Invariant: no delivery that follows an update which must be durable is made before it is. Updates that may be late
//! (acknowledgements: losing one costs a recomputed split) hold up nothing; they are written with the next batch, or
//! after [`LATE_MAX`].

use std::time::Duration;

use forebay_core::Ticks;

use crate::records::{Batch, Update};

/// How late an update that need not be durable at once may be written.
const LATE_MAX: Duration = Duration::from_millis(100);

/// Deliveries, in order, and the batches that they wait for.
pub(crate) struct Outbox<T> {
    batch: Batch,
    /// Whether the waiting deliveries wait for `batch`.
    urgent: bool,
    /// Since when `batch` holds an update.
    since: Option<Ticks>,
    waiting: Vec<T>,
    /// The deliveries that wait for the batch that is being written, and whether that batch is urgent.
    writing: Option<(bool, Vec<T>)>,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self { batch: Batch::default(), urgent: false, since: None, waiting: Vec::new(), writing: None }
    }
}

impl<T> Outbox<T> {
    /// Accepts an update; if it is `urgent`, later deliveries wait for it.
    pub(crate) fn update(&mut self, now: Ticks, update: Update, urgent: bool) {
        self.batch.add(update);
        self.urgent |= urgent;
        self.since.get_or_insert(now);
    }

    /// Accepts a delivery; returns it if it may be made now.
    pub(crate) fn say(&mut self, delivery: T) -> Option<T> {
        if self.urgent || matches!(self.writing, Some((true, _))) {
            self.waiting.push(delivery);
            return None;
        }
        Some(delivery)
    }

    /// Returns the batch to write now, if there is one and none is being written.
    pub(crate) fn next(&mut self, now: Ticks) -> Option<Batch> {
        let late = self.since.is_some_and(|since| now - since >= LATE_MAX);
        if self.writing.is_some() || !(self.urgent || late) {
            return None;
        }
        self.since = None;
        self.writing = Some((std::mem::take(&mut self.urgent), std::mem::take(&mut self.waiting)));
        Some(std::mem::take(&mut self.batch))
    }

    /// Returns the last batch to write when this process stops.
    pub(crate) fn rest(&mut self) -> Option<Batch> {
        self.urgent |= !self.batch.is_empty();
        self.next(Ticks(0))
    }

    /// The batch is durable; returns the deliveries that may be made now.
    pub(crate) fn written(&mut self) -> Vec<T> {
        let mut ready = self.writing.take().map(|(_, ready)| ready).unwrap_or_default();
        if !self.urgent {
            ready.append(&mut self.waiting);
        }
        ready
    }

    /// Returns whether a batch is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Position;

    fn update() -> Update {
        Update::Frontier((0, 0), Position::default())
    }

    #[test]
    fn what_follows_an_urgent_update_waits_until_it_is_written() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.say(1), Some(1));
        outbox.update(Ticks(0), update(), true);
        assert_eq!(outbox.say(2), None);
        assert!(outbox.next(Ticks(0)).is_some() && outbox.next(Ticks(0)).is_none());
        assert_eq!(outbox.say(3), None);
        outbox.update(Ticks(0), update(), true);
        assert_eq!(outbox.say(4), None);
        assert_eq!(outbox.written(), [2]);
        assert!(outbox.next(Ticks(0)).is_some());
        assert_eq!(outbox.written(), [3, 4]);
        assert_eq!(outbox.say(5), Some(5));
    }

    #[test]
    fn what_may_be_late_holds_nothing_up_and_is_written_in_time() {
        let mut outbox = Outbox::default();
        outbox.update(Ticks(0), update(), false);
        assert_eq!(outbox.say(1), Some(1));
        assert!(outbox.next(Ticks(99)).is_none() && outbox.next(Ticks(100)).is_some());
        assert_eq!(outbox.say(2), Some(2));
        assert_eq!(outbox.written(), [0; 0]);
        assert!(outbox.next(Ticks(1000)).is_none());
        outbox.update(Ticks(0), update(), false);
        assert!(outbox.rest().is_some());
    }
}
