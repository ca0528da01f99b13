//! Time as a seam: a monotonic count of milliseconds that a simulation can drive.
//!
//! Invariant: leases and timeouts only ever compare [`Ticks`] of the same process; no role reads the wall clock, so a
//! clock that jumps cannot expire a lease.

#![expect(clippy::disallowed_methods, reason = "the clock of the machine, from which roles get the time")]

use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

/// Milliseconds since an arbitrary start of this process. Monotonic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticks(pub u64);

impl Add<Duration> for Ticks {
    type Output = Ticks;
    fn add(self, rhs: Duration) -> Ticks {
        Ticks(self.0.saturating_add(rhs.as_millis() as u64))
    }
}

impl Sub for Ticks {
    type Output = Duration;
    fn sub(self, rhs: Ticks) -> Duration {
        Duration::from_millis(self.0.saturating_sub(rhs.0))
    }
}

/// The clock from which a role reads the time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time now; never less than an earlier answer.
    fn now(&self) -> Ticks;
}

/// The clock that measures the cost of work. Its result decides which rows are worth caching, and reaches no sample.
pub trait Stopwatch: Send + Sync + 'static {
    /// Returns nanoseconds since an arbitrary start; never less than an earlier answer.
    fn nanos(&self) -> u64;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Stopwatch for SystemClock {
    fn nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Ticks {
        Ticks(self.0.elapsed().as_millis() as u64)
    }
}
