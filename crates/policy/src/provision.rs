//! The reconciler of a provisioner: it brings the present workers to the wanted number, one step at a time.
//!
//! A provisioner (whose workers are children of one process, or actors of a Ray cluster) observes the workers, requests
//! the next action from the reconciler, carries it out, and reports failures. The reconciler is pure: its callers pass
//! the time and the observation.
//! Invariants: no more than `workers_max` workers at any time, leaving ones included; no more than `at_once` starts or
//! ends under way; none starts while one leaves; after a failure there is a pause, each twice as long as the one
//! before, until a worker that was started since has lived for a while. So workers that cannot live keep no machine
//! busy, even if others beside them live.

use std::cmp::Ordering;
use std::time::Duration;

use forebay_core::Ticks;

/// The first and the longest pause after a worker that could not start, or that died.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(60);

/// The workers that are present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerCounts {
    /// Requested, and not ready yet.
    pub starting: u32,
    /// Ready.
    pub running: u32,
    /// Asked to leave: they compute the splits that they hold, and accept no new ones.
    pub leaving: u32,
}

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Keep,
    /// Request a worker.
    StartOne,
    /// Ask a worker to leave; preferably one that is not ready yet.
    EndOne,
}

/// Brings the present workers to the wanted number.
#[derive(Debug, Clone)]
pub struct Reconciler {
    workers_min: u32,
    workers_max: u32,
    at_once: u32,
    target: u32,
    /// The next pause, and the end of this one.
    pause: Duration,
    until: Ticks,
    failed: Ticks,
}

impl Reconciler {
    /// Makes a reconciler that wants `workers_min` at first and allows `workers_max`, of which `at_once` may be
    /// starting or leaving. `workers_min` should be at least 1, unless there are other types of workers.
    pub fn new(workers_min: u32, workers_max: u32, at_once: u32) -> Self {
        Self {
            workers_min,
            workers_max: workers_max.max(1).max(workers_min),
            at_once: at_once.max(1),
            target: workers_min,
            pause: PAUSE_FIRST,
            until: Ticks::default(),
            failed: Ticks::default(),
        }
    }

    /// Returns the next action. If `wanted` is `None` (unknown), the last wanted number stays.
    pub fn next(&mut self, now: Ticks, wanted: Option<u32>, seen: WorkerCounts) -> Action {
        self.target = wanted.unwrap_or(self.target).clamp(self.workers_min, self.workers_max);
        let there = seen.starting + seen.running;
        match there.cmp(&self.target) {
            Ordering::Greater if seen.leaving < self.at_once => Action::EndOne,
            Ordering::Less if seen.leaving == 0 && seen.starting < self.at_once && now >= self.until => {
                Action::StartOne
            }
            _ => Action::Keep,
        }
    }

    /// Records that a worker could not start, or died. Returns the pause before the next start; failures within a pause
    /// have one cause, and do not make the next pause longer.
    pub fn failed(&mut self, now: Ticks) -> Duration {
        self.failed = now;
        if now < self.until {
            return self.until - now;
        }
        let pause = self.pause;
        (self.until, self.pause) = (now + pause, (pause * 2).min(PAUSE_LAST));
        pause
    }

    /// Records that a worker started at `since` has run for a while. If none has failed after that, pauses begin anew.
    pub fn lives(&mut self, since: Ticks) {
        if since > self.failed {
            self.pause = PAUSE_FIRST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(running: u32) -> WorkerCounts {
        WorkerCounts { running, ..WorkerCounts::default() }
    }

    #[test]
    fn one_change_at_a_time_and_no_more_than_there_may_be() {
        let mut it = Reconciler::new(1, 3, 1);
        let at = Ticks(5);
        assert_eq!(it.next(at, None, running(1)), Action::Keep);
        assert_eq!(it.next(at, Some(9), running(1)), Action::StartOne);
        assert_eq!(it.next(at, Some(9), WorkerCounts { starting: 1, running: 1, leaving: 0 }), Action::Keep);
        assert_eq!(it.next(at, Some(9), running(2)), Action::StartOne);
        assert_eq!(it.next(at, Some(9), running(3)), Action::Keep, "there may be three");
        assert_eq!(it.next(at, None, running(2)), Action::StartOne, "as many as were wanted last");
        assert_eq!(
            it.next(at, Some(9), WorkerCounts { leaving: 1, ..running(2) }),
            Action::Keep,
            "one that leaves is still there"
        );
        assert_eq!(it.next(at, Some(1), running(3)), Action::EndOne);
        assert_eq!(it.next(at, Some(1), WorkerCounts { starting: 0, running: 2, leaving: 1 }), Action::Keep);
        assert_eq!(it.next(at, Some(0), running(1)), Action::Keep, "one is always there");
        let mut one_of_several = Reconciler::new(0, 3, 1);
        assert_eq!(one_of_several.next(at, None, running(0)), Action::Keep);
        assert_eq!(one_of_several.next(at, Some(0), running(1)), Action::EndOne);
    }

    #[test]
    fn what_waits_for_room_is_given_up_when_it_is_not_wanted_any_more() {
        let mut it = Reconciler::new(1, 9, 2);
        let waits = |starting| WorkerCounts { starting, running: 1, leaving: 0 };
        assert_eq!(it.next(Ticks(5), Some(9), waits(1)), Action::StartOne);
        assert_eq!(it.next(Ticks(5), Some(9), waits(2)), Action::Keep, "two at once");
        assert_eq!(it.next(Ticks(5), Some(1), waits(2)), Action::EndOne);
    }

    #[test]
    fn a_worker_that_cannot_start_is_tried_less_and_less_often_beside_living_ones() {
        let mut it = Reconciler::new(1, 3, 1);
        let mut now = Ticks(1);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert_eq!(it.next(now, Some(2), running(1)), Action::StartOne);
            let pause = it.failed(now);
            it.lives(Ticks(0));
            assert_eq!(it.failed(now), pause, "two that fail at once have one cause");
            assert_eq!(it.next(now + (pause - Duration::from_millis(1)), Some(2), running(1)), Action::Keep);
            pauses.push(pause.as_secs());
            now = now + pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        it.lives(now + Duration::from_millis(1));
        assert_eq!(it.failed(now), PAUSE_FIRST);
    }
}
