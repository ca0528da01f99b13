//! The step counts that a consumer exchanges with the dispatcher, if the consumers of a job end epochs together. No
//! I/O; time is an argument.
//!
//! The consumer sends the count of steps that it has merged, and receives the floor: the count that all consumers have.
//! It sends a new count once it has delivered half of its ready steps beyond the last count that it sent, or beyond the
//! floor. So the number of messages does not grow with the number of steps. Bound: the consumers of a job together send
//! at most [`COUNTS_PER_MS`] counts in a millisecond, except the first and the last counts of epochs. Invariants: a
//! count that was sent stays true; the floor of an epoch only rises, also over sessions.

use std::time::Duration;

use forebay_core::Ticks;
use forebay_plan::{Count, Floor};
use forebay_proto::{Floor as FloorMessage, Missing, Steps as StepsMessage};

/// Counts that all consumers of a job together may send in a millisecond.
const COUNTS_PER_MS: u32 = 20;

#[derive(Debug)]
pub(crate) struct StepSync {
    /// The shortest time between two counts.
    pause: Duration,
    epoch: u64,
    count: Count,
    /// Steps of the epoch that were delivered.
    given: u64,
    floor: Floor,
    /// The last count of this epoch that was sent in this session.
    sent: Option<Count>,
    /// Whether the dispatcher has not answered it yet.
    is_unanswered: bool,
    sent_at: Option<Ticks>,
    /// The consumers for which the others wait, and that report no count.
    missing: Vec<Missing>,
}

impl StepSync {
    pub(crate) fn new(consumers: u32, epoch: u64) -> Self {
        Self {
            pause: Duration::from_millis((consumers / COUNTS_PER_MS).into()),
            epoch,
            count: Count::default(),
            given: 0,
            floor: Floor::default(),
            sent: None,
            is_unanswered: false,
            sent_at: None,
            missing: Vec::new(),
        }
    }

    /// Sets the epoch of the consumer, and the steps that it has merged and delivered. Returns the floor.
    pub(crate) fn set(&mut self, epoch: u64, count: Count, given: u64) -> Floor {
        if epoch != self.epoch {
            (self.epoch, self.floor, self.sent, self.is_unanswered) = (epoch, Floor::default(), None, false);
            self.missing.clear();
        }
        (self.count, self.given) = (count, given);
        self.floor
    }

    /// Returns the steps of the epoch that all consumers may deliver.
    pub(crate) fn floor(&self) -> Floor {
        self.floor
    }

    /// Begins a session, in which no count was sent yet.
    pub(crate) fn restart(&mut self) {
        (self.sent, self.is_unanswered) = (None, false);
        self.missing.clear();
    }

    /// Accepts a floor from the dispatcher.
    pub(crate) fn raise_floor(&mut self, floor: FloorMessage) {
        if floor.epoch == self.epoch {
            self.is_unanswered = false;
            self.floor.steps = self.floor.steps.max(floor.steps);
            if floor.over {
                self.floor = Floor { steps: floor.steps, over: true, more: floor.more };
            }
        }
    }

    pub(crate) fn set_missing(&mut self, missing: Vec<Missing>) {
        self.missing = missing;
    }

    /// Returns the consumers for which the others wait, and that report no count.
    pub(crate) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Returns whether to send a count now.
    pub(crate) fn is_due(&self, now: Ticks) -> bool {
        let Some(sent) = self.sent else { return true };
        if self.floor.over {
            return false;
        }
        if self.count.ended && !sent.ended {
            return true;
        }
        let low = (self.count.has.saturating_sub(self.given) / 2).max(1);
        let is_low = |steps: u64| steps.saturating_sub(self.given) <= low;
        let has_grown = self.count.has > sent.has && is_low(sent.has);
        let asks = !self.is_unanswered && is_low(self.floor.steps);
        (has_grown || asks) && self.sent_at.is_none_or(|sent_at| now - sent_at >= self.pause)
    }

    /// Returns the count to send, if one is due.
    pub(crate) fn take_message(&mut self, now: Ticks) -> Option<StepsMessage> {
        if !self.is_due(now) {
            return None;
        }
        (self.sent, self.is_unanswered, self.sent_at) = (Some(self.count), true, Some(now));
        let Count { has, ended } = self.count;
        Some(StepsMessage { epoch: self.epoch, has, ended, seen: self.floor.steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(has: u64) -> Count {
        Count { has, ended: false }
    }

    #[test]
    fn a_consumer_that_is_ahead_sends_few_counts_and_one_that_waits_sends_each() {
        let mut steps = StepSync::new(2, 0);
        let mut sent = 0;
        for given in 0..1000 {
            steps.set(0, open(given + 32), given);
            if let Some(message) = steps.take_message(Ticks(given)) {
                sent += 1;
                steps.raise_floor(FloorMessage { epoch: 0, steps: message.has, over: false, more: 0 });
            }
        }
        assert!((40..90).contains(&sent), "{sent}");
        // It has one step ready at a time: each count is sent.
        let mut steps = StepSync::new(2, 0);
        for given in 0..10 {
            steps.set(0, open(given + 1), given);
            assert_eq!(
                steps.take_message(Ticks(given)).map(|message| (message.has, message.seen)),
                Some((given + 1, given))
            );
            assert_eq!(steps.take_message(Ticks(given)), None, "once");
            steps.raise_floor(FloorMessage { epoch: 0, steps: given + 1, over: false, more: 0 });
        }
    }

    #[test]
    fn many_consumers_do_not_send_each_step_and_a_new_session_gets_the_count_again() {
        let mut steps = StepSync::new(1000, 3);
        let mut sent = 0;
        for at in 0..1000 {
            steps.set(3, open(at / 10 + 1), at / 10);
            sent += u64::from(steps.take_message(Ticks(at)).is_some());
            steps.raise_floor(FloorMessage { epoch: 3, steps: at / 10 + 1, over: false, more: 0 });
        }
        assert!(sent <= 21, "{sent} in a second");
        steps.set(3, Count { has: 100, ended: true }, 99);
        let last = steps.take_message(Ticks(1000)).expect("the last count is sent at once");
        assert!(last.ended && steps.take_message(Ticks(2000)).is_none());
        steps.restart();
        assert_eq!(steps.take_message(Ticks(2000)), Some(StepsMessage { seen: 100, ..last }));
        // A floor of another epoch changes nothing, and a new epoch begins with an empty floor.
        steps.raise_floor(FloorMessage { epoch: 2, steps: 500, over: true, more: 1 });
        assert_eq!(steps.floor(), Floor { steps: 100, ..Floor::default() });
        assert_eq!(steps.set(4, open(0), 0), Floor::default());
        assert!(steps.is_due(Ticks(2000)));
    }
}
