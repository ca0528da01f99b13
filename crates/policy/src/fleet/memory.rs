//! The state of one worker type: the wanted workers, since when some are missing, and how long they take to start.

use std::time::Duration;

use forebay_core::Ticks;

/// After this time, missing workers are not expected any more.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// After this time, they are requested again.
pub const RETRY: Duration = Duration::from_secs(600);
/// Workers are late after so many times their usual start time,
const LATE: u32 = 2;
/// but not before this time, nor later than [`PATIENCE`];
const LATE_MIN: Duration = Duration::from_secs(15);
/// and after this time while the usual one is unknown.
const LATE_UNKNOWN: Duration = Duration::from_secs(90);

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Memory {
    /// The workers of the mix, without the workers that are being replaced.
    pub(super) target: u32,
    pub(super) wanted: u32,
    /// The workers that were there.
    there: u32,
    short: Option<Short>,
    /// Until then no more are expected.
    pub(super) away: Option<Ticks>,
    /// The average start time of the last ones.
    took: Option<Duration>,
}

/// Fewer workers are there than wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Short {
    /// Since when.
    asked: Ticks,
    /// The most that were there since, and since when.
    most: u32,
    since: Ticks,
    /// Whether they were lost: then it is unknown whether others come.
    lost: bool,
}

impl Memory {
    pub(super) fn of(workers: u32) -> Self {
        Self { target: workers, wanted: workers, there: workers, ..Self::default() }
    }

    /// Records the number of workers that are there.
    pub(super) fn see(&mut self, at: Ticks, there: u32) {
        let lost = there < self.there && there < self.wanted;
        self.there = there;
        self.away = self.away.filter(|until| at < *until);
        if there >= self.wanted || self.away.is_some() {
            let short = self.short.take().filter(|short| there >= self.wanted && !short.lost);
            let took = short.map(|short| at - short.asked);
            self.took = took.map(|took| self.took.map_or(took, |before| (before + took) / 2)).or(self.took);
            return;
        }
        let short = self.short.get_or_insert(Short { asked: at, most: there, since: at, lost });
        short.lost |= lost;
        if there > short.most {
            (short.most, short.since, short.lost) = (there, at, false);
        }
        if at - short.since >= PATIENCE {
            (self.short, self.away) = (None, Some(at + RETRY));
        }
    }

    /// Returns whether the missing workers are later than usual.
    pub(super) fn is_late(&self, at: Ticks) -> bool {
        self.short.is_some_and(|short| {
            let usual = self.took.map_or(LATE_UNKNOWN, |took| took * LATE);
            at - short.since >= if short.lost { LATE_MIN } else { usual.clamp(LATE_MIN, PATIENCE) }
        })
    }
}
