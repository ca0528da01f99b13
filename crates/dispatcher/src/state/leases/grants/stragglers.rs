//! Straggler detection: how long splits take, and which running ones are late. Arithmetic only.
//!
//! A split at a slow worker (a bad disk, a busy neighbour, a throttled processor) holds up everything behind it. Once
//! there is no other work, another worker computes it too, as MapReduce's backup tasks do (Dean and Ghemawat 2004,
//! 3.6), but not before it is clearly late, as hedged requests do (Dean and Barroso, "The Tail at Scale", 2013). Such
//! backups cost a few splits in a hundred, and the tail no longer follows the slowest worker.
//!
//! Late is relative to the other splits of the job. The time counts from when the worker began the split, as far as the
//! dispatcher can tell: a worker computes the oldest lease of each consumer, the highest priority first, as many as it has
//! threads, and reports in its heartbeats which ones it finished.
//!
//! Invariants: only splits that are late and needed soon get a backup, the most urgent first; there is at most one
//! backup for every [`LEASES_PER_BACKUP`] leases, or one.

use std::collections::VecDeque;
use std::time::Duration;

/// Durations of a job that are remembered.
const REMEMBERED: usize = 64;
/// Splits that must have ended before any split can be late.
const KNOWN_MIN: usize = 4;
/// A split is late after this many medians. The factor is low because only an idle worker runs a backup.
const LATE_FACTOR: u32 = 2;
/// A split is not late before this age: shorter delays have many harmless causes.
const LATE_MIN: Duration = Duration::from_secs(1);
/// A split that waits longer than this goes to an idle worker.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// One backup at a time for this many leases, and one in any case.
const LEASES_PER_BACKUP: usize = 10;

/// How long the last splits of one job took, until their worker or their consumer was done.
#[derive(Debug, Clone, Default)]
pub(in crate::state::leases) struct SplitDurations {
    recent: VecDeque<Duration>,
}

impl SplitDurations {
    pub(in crate::state::leases) fn note(&mut self, took: Duration) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// Returns the median duration; `None` while too few are known.
    pub(in crate::state::leases) fn median(&self) -> Option<Duration> {
        if self.recent.len() < KNOWN_MIN {
            return None;
        }
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        let middle = sorted.len() / 2;
        Some(*sorted.select_nth_unstable(middle).1)
    }

    /// Returns whether a split took about as long as others do.
    pub(in crate::state::leases) fn is_usual(&self, took: Duration) -> bool {
        self.median().is_none_or(|median| took <= median * LATE_FACTOR)
    }

    /// Returns whether a split that waits for `rounds` others should move to an idle worker. Before any duration is
    /// known, the current age of the running split, `by_now`, stands for it.
    pub(in crate::state::leases) fn is_worth_moving(&self, rounds: u32, by_now: Duration) -> bool {
        self.median().unwrap_or(by_now) * rounds >= WAIT_MAX
    }

    /// Returns whether a split of the age `by_now` may end within the time `soon`.
    pub(in crate::state::leases) fn may_end_within(&self, soon: Duration, by_now: Duration) -> bool {
        self.median().is_some_and(|median| by_now + soon >= median)
    }

    /// Returns the age from which a split is late: earlier for a worker that is known to be slow.
    pub(in crate::state::leases) fn late_after(&self, is_slow: bool) -> Option<Duration> {
        let median = self.median()?;
        Some(if is_slow { median } else { (median * LATE_FACTOR).max(LATE_MIN) })
    }
}

/// A split that a worker computes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state::leases) struct RunningSplit<T> {
    pub(in crate::state::leases) split: T,
    /// Splits that its consumer needs before it, and the consumer's window.
    pub(in crate::state::leases) before: u128,
    pub(in crate::state::leases) window: u128,
    pub(in crate::state::leases) age: Duration,
    /// See [`SplitDurations::late_after`].
    pub(in crate::state::leases) late_after: Duration,
}

impl<T> RunningSplit<T> {
    /// Returns whether the split is late, and in the first half of its consumer's window.
    fn is_due(&self) -> bool {
        self.age > self.late_after && self.before < self.window.div_ceil(2)
    }
}

/// Returns the splits to back up now, the most urgent first, where `running` backups run among `leases` leases.
pub(in crate::state::leases) fn to_back_up<T>(
    running_splits: Vec<RunningSplit<T>>,
    running: usize,
    leases: usize,
) -> Vec<T> {
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
        // A single very long split does not move the median.
        durations.note(ms(60_000));
        assert_eq!(durations.late_after(false), Some(ms(1600)));
        assert_eq!(durations.late_after(true), Some(ms(800)));
        (0..REMEMBERED).for_each(|_| durations.note(ms(20)));
        assert_eq!(durations.late_after(false), Some(LATE_MIN));
    }

    proptest! {
        #[test]
        fn only_late_splits_that_are_needed_soon_get_backups_and_only_so_many(
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
            // A due split without a backup is less urgent than the splits with one, or the limit is reached.
            let last = backed_up.iter().map(|i| splits[*i].0).max();
            let left = (0..splits.len()).filter(|i| is_due(i) && !backed_up.contains(i)).map(|i| splits[i].0).min();
            let full = backed_up.len() + running >= (leases / LEASES_PER_BACKUP).max(1);
            prop_assert!(left.is_none() || (full && last.is_none_or(|last| left >= Some(last))));
        }
    }
}
