//! How far this reader is in an epoch that all readers of its job end together, and what it says and hears of that. No I/O; time comes in.
//!
//! It tells ahead what it has merged, and is told what all have. It says so again when half of what it has ready was given out beyond what
//! it told, or what it was told: so a job's messages do not follow its steps. Bound: the readers of a job say together at most
//! [`TOLD_PER_MS`] counts in a millisecond, but for the first and the last ones of epochs.
//! Invariants: what is said is true for ever; what was heard of an epoch only rises, also over sessions.

use std::time::Duration;

use forebay_core::Ticks;
use forebay_plan::{Count, Floor};
use forebay_proto::{Floor as Told, Missing, Steps as Say};

/// Counts that all readers of a job may tell in a millisecond.
const TOLD_PER_MS: u32 = 20;

#[derive(Debug)]
pub(crate) struct Steps {
    /// The shortest time from one count to the next.
    pause: Duration,
    epoch: u64,
    count: Count,
    /// Steps of the epoch that were given out.
    given: u64,
    floor: Floor,
    /// What was said in this session, of this epoch.
    told: Option<Count>,
    /// Whether that is still to be answered.
    asked: bool,
    said: Option<Ticks>,
    /// Who holds up the others and does not say how far it is.
    missing: Vec<Missing>,
}

impl Steps {
    pub(crate) fn new(consumers: u32, epoch: u64) -> Self {
        Self {
            pause: Duration::from_millis((consumers / TOLD_PER_MS).into()),
            epoch,
            count: Count::default(),
            given: 0,
            floor: Floor::default(),
            told: None,
            asked: false,
            said: None,
            missing: Vec::new(),
        }
    }

    /// The reader is in this epoch, has merged so many steps and has given out so many. Returns what all may give out of it.
    pub(crate) fn set(&mut self, epoch: u64, count: Count, given: u64) -> Floor {
        if epoch != self.epoch {
            (self.epoch, self.floor, self.told, self.asked) = (epoch, Floor::default(), None, false);
            self.missing.clear();
        }
        (self.count, self.given) = (count, given);
        self.floor
    }

    /// Returns what all may give out of the epoch.
    pub(crate) fn floor(&self) -> Floor {
        self.floor
    }

    /// A new session has heard nothing.
    pub(crate) fn restart(&mut self) {
        (self.told, self.asked) = (None, false);
        self.missing.clear();
    }

    pub(crate) fn hear(&mut self, told: Told) {
        if told.epoch == self.epoch {
            self.asked = false;
            self.floor.steps = self.floor.steps.max(told.steps);
            if told.over {
                self.floor = Floor { steps: told.steps, over: true, more: told.more };
            }
        }
    }

    pub(crate) fn hear_missing(&mut self, missing: Vec<Missing>) {
        self.missing = missing;
    }

    /// Returns who holds up the others and does not say how far it is.
    pub(crate) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Says whether there is something to say now.
    pub(crate) fn is_due(&self, now: Ticks) -> bool {
        let Some(told) = self.told else { return true };
        if self.floor.over {
            return false;
        }
        if self.count.ended && !told.ended {
            return true;
        }
        let low = (self.count.has.saturating_sub(self.given) / 2).max(1);
        let is_low = |steps: u64| steps.saturating_sub(self.given) <= low;
        let has_news = self.count.has > told.has && is_low(told.has);
        let asks = !self.asked && is_low(self.floor.steps);
        (has_news || asks) && self.said.is_none_or(|said| now - said >= self.pause)
    }

    /// Returns what there is to say.
    pub(crate) fn say(&mut self, now: Ticks) -> Option<Say> {
        if !self.is_due(now) {
            return None;
        }
        (self.told, self.asked, self.said) = (Some(self.count), true, Some(now));
        let Count { has, ended } = self.count;
        Some(Say { epoch: self.epoch, has, ended, seen: self.floor.steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(has: u64) -> Count {
        Count { has, ended: false }
    }

    #[test]
    fn a_reader_that_is_ahead_says_so_seldom_and_one_that_waits_at_once() {
        let mut steps = Steps::new(2, 0);
        let mut said = 0;
        for given in 0..1000 {
            steps.set(0, open(given + 32), given);
            if let Some(say) = steps.say(Ticks(given)) {
                said += 1;
                steps.hear(Told { epoch: 0, steps: say.has, over: false, more: 0 });
            }
        }
        assert!((40..90).contains(&said), "{said}");
        // It has one step ready at a time: each is told.
        let mut steps = Steps::new(2, 0);
        for given in 0..10 {
            steps.set(0, open(given + 1), given);
            assert_eq!(steps.say(Ticks(given)).map(|say| (say.has, say.seen)), Some((given + 1, given)));
            assert_eq!(steps.say(Ticks(given)), None, "once");
            steps.hear(Told { epoch: 0, steps: given + 1, over: false, more: 0 });
        }
    }

    #[test]
    fn many_readers_do_not_tell_each_step_and_a_new_session_is_told_all_again() {
        let mut steps = Steps::new(1000, 3);
        let mut said = 0;
        for at in 0..1000 {
            steps.set(3, open(at / 10 + 1), at / 10);
            said += u64::from(steps.say(Ticks(at)).is_some());
            steps.hear(Told { epoch: 3, steps: at / 10 + 1, over: false, more: 0 });
        }
        assert!(said <= 21, "{said} in a second");
        steps.set(3, Count { has: 100, ended: true }, 99);
        let last = steps.say(Ticks(1000)).expect("the last count is told at once");
        assert!(last.ended && steps.say(Ticks(2000)).is_none());
        steps.restart();
        assert_eq!(steps.say(Ticks(2000)), Some(Say { seen: 100, ..last }));
        // What is said of another epoch is no news, and an epoch begins without any.
        steps.hear(Told { epoch: 2, steps: 500, over: true, more: 1 });
        assert_eq!(steps.floor(), Floor { steps: 100, ..Floor::default() });
        assert_eq!(steps.set(4, open(0), 0), Floor::default());
        assert!(steps.is_due(Ticks(2000)));
    }
}
