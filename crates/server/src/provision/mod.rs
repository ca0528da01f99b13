//! Who starts and ends workers, so that there are as many as the dispatcher wants: a reconciler, and what it works on.
//!
//! `process` has the workers of this machine. Elsewhere nobody of ours starts any: the dispatcher says what is wanted
//! (`GetScale`), and whoever runs workers asks it. The reconciler is pure: the time and what was seen come in.
//! Invariants: no more than `workers_max` at any time; one change at a time, and none before the last one is done; after a
//! failure there is a pause, each twice as long as the one before, so nothing that cannot live takes the machine.

pub(crate) mod process;

use std::time::Duration;

use forebay_core::Ticks;

/// The first and the longest pause after a worker that could not start, or that died soon.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(60);

/// The workers that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// Started, and not ready yet.
    pub(crate) starting: u32,
    pub(crate) running: u32,
    /// Told to leave: they compute what they hold, and take nothing new.
    pub(crate) leaving: u32,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Keep,
    StartOne,
    EndOne,
}

/// Brings what there is to what is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Reconciler {
    workers_max: u32,
    target: u32,
    /// The next pause, and the end of this one.
    pause: Duration,
    until: Ticks,
}

impl Reconciler {
    /// Starts with one worker wanted, of `workers_max` that there may be.
    pub(crate) fn new(workers_max: u32) -> Self {
        Self { workers_max: workers_max.max(1), target: 1, pause: PAUSE_FIRST, until: Ticks::default() }
    }

    /// Says what to do. `wanted` is `None` while nobody knows: then it is what it was.
    pub(crate) fn next(&mut self, now: Ticks, wanted: Option<u32>, seen: Seen) -> Action {
        self.target = wanted.unwrap_or(self.target).clamp(1, self.workers_max);
        let there = seen.starting + seen.running;
        match there.cmp(&self.target) {
            _ if seen.starting > 0 || seen.leaving > 0 => Action::Keep,
            std::cmp::Ordering::Greater => Action::EndOne,
            std::cmp::Ordering::Less if now >= self.until => Action::StartOne,
            _ => Action::Keep,
        }
    }

    /// A worker could not start, or died soon. Returns the pause before the next one.
    pub(crate) fn failed(&mut self, now: Ticks) -> Duration {
        let pause = self.pause;
        (self.until, self.pause) = (now + pause, (pause * 2).min(PAUSE_LAST));
        pause
    }

    /// A worker has run for a while: pauses begin anew.
    pub(crate) fn lives(&mut self) {
        self.pause = PAUSE_FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(running: u32) -> Seen {
        Seen { running, ..Seen::default() }
    }

    #[test]
    fn one_change_at_a_time_and_no_more_than_there_may_be() {
        let mut it = Reconciler::new(3);
        let at = Ticks(5);
        assert_eq!(it.next(at, None, running(1)), Action::Keep);
        assert_eq!(it.next(at, Some(9), running(1)), Action::StartOne);
        assert_eq!(it.next(at, Some(9), Seen { starting: 1, running: 1, leaving: 0 }), Action::Keep);
        assert_eq!(it.next(at, Some(9), running(2)), Action::StartOne);
        assert_eq!(it.next(at, Some(9), running(3)), Action::Keep, "there may be three");
        assert_eq!(it.next(at, None, running(2)), Action::StartOne, "as many as were wanted last");
        assert_eq!(it.next(at, Some(1), running(3)), Action::EndOne);
        assert_eq!(it.next(at, Some(1), Seen { starting: 0, running: 2, leaving: 1 }), Action::Keep);
        assert_eq!(it.next(at, Some(0), running(1)), Action::Keep, "one is always there");
    }

    #[test]
    fn what_cannot_start_is_tried_less_and_less_often() {
        let mut it = Reconciler::new(3);
        let mut now = Ticks(0);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert_eq!(it.next(now, Some(2), running(0)), Action::StartOne);
            let pause = it.failed(now);
            assert_eq!(it.next(now + (pause - Duration::from_millis(1)), Some(2), running(0)), Action::Keep);
            pauses.push(pause.as_secs());
            now = now + pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        it.lives();
        assert_eq!(it.failed(now), PAUSE_FIRST);
    }
}
