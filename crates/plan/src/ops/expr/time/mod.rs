//! Times as whole numbers: days, seconds or parts of these since 1970-01-01 00:00 UTC, as Arrow, Parquet and NumPy store
//! them.

mod format;

use serde::{Deserialize, Serialize};

pub(super) use format::check_read_format;
pub use format::{MONTHS, TimeItem, WEEKDAYS, time_items};

/// Seconds of a day. All days have as many: leap seconds have no number of their own.
const DAY_SECONDS: i64 = 86_400;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Days: Arrow's `date32`.
    D,
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl TimeUnit {
    /// Returns NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::D => "D",
            TimeUnit::S => "s",
            TimeUnit::Ms => "ms",
            TimeUnit::Us => "us",
            TimeUnit::Ns => "ns",
        }
    }

    /// Returns how many there are in a second; `None` for days.
    pub fn in_second(self) -> Option<i64> {
        match self {
            TimeUnit::D => None,
            TimeUnit::S => Some(1),
            TimeUnit::Ms => Some(1_000),
            TimeUnit::Us => Some(1_000_000),
            TimeUnit::Ns => Some(1_000_000_000),
        }
    }

    /// Returns how many there are in a day.
    pub fn in_day(self) -> i64 {
        self.in_second().map_or(1, |ticks| ticks * DAY_SECONDS)
    }
}

/// A part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimePart {
    /// The year of the Gregorian calendar, which also counts before its first use.
    Year,
    /// The month, from 1.
    Month,
    /// The day of the month, from 1.
    Day,
    /// The day of the year, from 1.
    OrdinalDay,
    /// The day of the week: Monday is 0.
    Weekday,
    /// The hour.
    Hour,
    /// The minute of the hour.
    Minute,
    /// The whole second of the minute.
    Second,
}

impl TimePart {
    /// Returns the method of Python that makes it.
    pub fn name(self) -> &'static str {
        match self {
            TimePart::Year => "year",
            TimePart::Month => "month",
            TimePart::Day => "day",
            TimePart::OrdinalDay => "ordinal_day",
            TimePart::Weekday => "weekday",
            TimePart::Hour => "hour",
            TimePart::Minute => "minute",
            TimePart::Second => "second",
        }
    }
}
