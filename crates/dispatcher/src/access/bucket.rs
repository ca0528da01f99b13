//! A token bucket: so many calls per second, with bursts of one second's calls. Pure.

use forebay_core::Ticks;

/// The price of one call; each millisecond adds the number of calls per second.
const CALL: u64 = 1000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    level: u64,
    at: Ticks,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(now: Ticks) -> Self {
        Self { level: u64::MAX, at: now }
    }

    /// Takes one call out, if there is one; `rate` is the number of calls per second.
    pub(super) fn take(&mut self, now: Ticks, rate: u32) -> bool {
        let rate = u64::from(rate);
        let filled = ((now - self.at).as_millis() as u64).saturating_mul(rate);
        (self.level, self.at) = (self.level.saturating_add(filled).min(rate * CALL), now.max(self.at));
        let left = self.level.checked_sub(CALL);
        self.level = left.unwrap_or(self.level);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_a_second_allows_whenever_they_come() {
        let mut bucket = Bucket::new(Ticks(0));
        let taken = |bucket: &mut Bucket, now| (0..100).filter(|_| bucket.take(Ticks(now), 10)).count();
        assert_eq!(taken(&mut bucket, 0), 10);
        assert_eq!(taken(&mut bucket, 99), 0);
        assert_eq!(taken(&mut bucket, 100), 1);
        assert_eq!(taken(&mut bucket, 400), 3);
        assert_eq!(taken(&mut bucket, 1 << 40), 10, "a second's worth, however long it was silent");
        assert!((0..100).all(|_| !bucket.take(Ticks(1 << 41), 0)));
    }
}
