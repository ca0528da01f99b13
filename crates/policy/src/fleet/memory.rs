//! What is remembered of a kind: how many are wanted, since when some are missing, and how long they take to come.

use std::time::Duration;

use forebay_core::Ticks;

/// After this, workers that have not come do not come.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// After this, they are asked for again.
pub const RETRY: Duration = Duration::from_secs(600);
/// Those that have not come by so many times what they usually take are late,
const LATE: u32 = 2;
/// but not before this, nor later than [`PATIENCE`];
const LATE_MIN: Duration = Duration::from_secs(15);
/// and after this while it is not known what they take.
const LATE_UNKNOWN: Duration = Duration::from_secs(90);

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Memory {
    /// The mix, without those that are being replaced.
    pub(super) target: u32,
    pub(super) wanted: u32,
    /// Those that there were.
    there: u32,
    short: Option<Short>,
    /// No more come until then.
    pub(super) away: Option<Ticks>,
    /// What the last ones took to come, on average.
    took: Option<Duration>,
}

/// Fewer are there than wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Short {
    /// Since when.
    asked: Ticks,
    /// The most that were there since, and since when it is as many.
    most: u32,
    since: Ticks,
    /// Whether they were lost: then nothing says that others come.
    lost: bool,
}

impl Memory {
    pub(super) fn of(workers: u32) -> Self {
        Self { target: workers, wanted: workers, there: workers, ..Self::default() }
    }

    /// Notes how many are there.
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

    /// Says whether those that are missing are later than usual.
    pub(super) fn is_late(&self, at: Ticks) -> bool {
        self.short.is_some_and(|short| {
            let usual = self.took.map_or(LATE_UNKNOWN, |took| took * LATE);
            at - short.since >= if short.lost { LATE_MIN } else { usual.clamp(LATE_MIN, PATIENCE) }
        })
    }
}
