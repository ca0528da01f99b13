//! How long splits take, and which of those under way are late: the policy of races, as arithmetic.
//!
//! A split whose worker is slow (a bad disk, a busy neighbour, a processor that throttles) holds up everything behind
//! it. Once nothing else is to be done, another worker computes it too, as MapReduce's backup tasks do (Dean and
//! Ghemawat 2004, 3.6), and not before it is clearly late, as hedged requests do (Dean and Barroso, "The Tail at
//! Scale", 2013): such a race costs a few splits in a hundred, and the tail no longer follows the slowest worker.
//! Late is relative to the other splits of the job. What counts is the time that a worker is at a split, as far as the
//! dispatcher can tell: a worker is at the oldest of its leases, those of the highest priority first, as many as it has
//! threads, and says with its heartbeats what it has finished.
//!
//! Invariants: a race is begun only for what is late and needed soon, the most urgent first; no more of them run at a
//! time than one for every [`LEASES_PER_BACKUP`] leases, or one.

use std::collections::VecDeque;
use std::time::Duration;

/// Splits of a job whose times are remembered.
const REMEMBERED: usize = 64;
/// Splits that must have ended before any is called late.
const KNOWN_MIN: usize = 4;
/// A split is late after so many times the median; up to there it took as long as others do. Low, because only a worker
/// that has nothing else to do races.
const LATE_FACTOR: u32 = 2;
/// A split is not late sooner: what is shorter may be a pause of anything.
const LATE_MIN: Duration = Duration::from_secs(1);
/// A split that waits longer than this goes to a worker that has nothing to do.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// One race at a time for so many leases, and one in any case.
const LEASES_PER_BACKUP: usize = 10;

/// How long the splits of one job took lately, until their worker or their reader was done.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct SplitDurations {
    recent: VecDeque<Duration>,
}

impl SplitDurations {
    pub(in crate::state) fn note(&mut self, took: Duration) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// Returns what half of the splits took at most; `None` while too few are known.
    pub(in crate::state) fn median(&self) -> Option<Duration> {
        if self.recent.len() < KNOWN_MIN {
            return None;
        }
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        let middle = sorted.len() / 2;
        Some(*sorted.select_nth_unstable(middle).1)
    }

    /// Says whether a split took about as long as others do.
    pub(in crate::state) fn is_usual(&self, took: Duration) -> bool {
        self.median().is_none_or(|median| took <= median * LATE_FACTOR)
    }

    /// Says whether a split that waits for `rounds` others is better off at a worker that has nothing to do. While it is not known how
    /// long splits take, they take as long as the one before it has taken by now.
    pub(in crate::state) fn is_worth_moving(&self, rounds: u32, by_now: Duration) -> bool {
        self.median().unwrap_or(by_now) * rounds >= WAIT_MAX
    }

    /// Says whether one that has taken so long by now may be done within a time.
    pub(in crate::state) fn may_end_within(&self, soon: Duration, by_now: Duration) -> bool {
        self.median().is_some_and(|median| by_now + soon >= median)
    }

    /// Returns the age from which a split is late. Who is known to be slow has no benefit of the doubt.
    pub(in crate::state) fn late_after(&self, is_slow: bool) -> Option<Duration> {
        let median = self.median()?;
        Some(if is_slow { median } else { (median * LATE_FACTOR).max(LATE_MIN) })
    }
}

/// A split that is under way on one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) struct RunningSplit<T> {
    pub(in crate::state) split: T,
    /// Splits that its reader needs before it, and those that the reader may have ahead.
    pub(in crate::state) before: u128,
    pub(in crate::state) window: u128,
    pub(in crate::state) age: Duration,
    /// See [`SplitDurations::late_after`].
    pub(in crate::state) late_after: Duration,
}

impl<T> RunningSplit<T> {
    /// Late, and in the half of its reader's window that comes first.
    fn is_due(&self) -> bool {
        self.age > self.late_after && self.before < self.window.div_ceil(2)
    }
}

/// Returns the splits to race now, the most urgent first, where `running` races run among `leases` leases.
pub(in crate::state) fn to_back_up<T>(running_splits: Vec<RunningSplit<T>>, running: usize, leases: usize) -> Vec<T> {
    let most = (leases / LEASES_PER_BACKUP).max(1).saturating_sub(running);
    let mut due: Vec<_> = running_splits.into_iter().filter(RunningSplit::is_due).collect();
    due.sort_by_key(|runner| runner.before);
    due.into_iter().take(most).map(|runner| runner.split).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn late_is_relative_to_the_median_of_what_ended_lately() {
        let mut durations = SplitDurations::default();
        (0..3).for_each(|_| durations.note(ms(800)));
        assert_eq!(durations.late_after(false), None, "too little is known");
        // One that took very long does not move the mark.
        durations.note(ms(60_000));
        assert_eq!(durations.late_after(false), Some(ms(1600)));
        assert_eq!(durations.late_after(true), Some(ms(800)));
        (0..REMEMBERED).for_each(|_| durations.note(ms(20)));
        assert_eq!(durations.late_after(false), Some(LATE_MIN));
    }

    proptest! {
        #[test]
        fn only_what_is_late_and_needed_soon_is_raced_and_only_so_much(
            splits in prop::collection::vec((0u128..40, 0u64..10_000), 0..80),
            window in 1u128..40,
            running in 0usize..10,
        ) {
            let leases = splits.len() + running;
            let running_splits: Vec<_> = splits.iter().enumerate().map(|(split, (before, age))| RunningSplit {
                split, before: *before, window, age: ms(*age), late_after: ms(3000),
            }).collect();
            let backed_up = to_back_up(running_splits.clone(), running, leases);
            prop_assert!(backed_up.is_empty() || backed_up.len() + running <= (leases / LEASES_PER_BACKUP).max(1));
            let is_due = |i: &usize| splits[*i].1 > 3000 && 2 * splits[*i].0 < window;
            prop_assert!(backed_up.iter().all(is_due));
            // Whoever is left out is less urgent than whoever is not, or there is no room for a race.
            let last = backed_up.iter().map(|i| splits[*i].0).max();
            let left = (0..splits.len()).filter(|i| is_due(i) && !backed_up.contains(i)).map(|i| splits[i].0).min();
            let full = backed_up.len() + running >= (leases / LEASES_PER_BACKUP).max(1);
            prop_assert!(left.is_none() || (full && last.is_none_or(|last| left >= Some(last))));
        }
    }
}
