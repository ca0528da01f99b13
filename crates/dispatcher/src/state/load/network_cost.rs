//! The CPU cost of sending or receiving a byte of a job's rows over a network, as the processes at that end reported
//! it.
//!
//! TLS costs more than plain connections, and small messages cost more than large ones, so the cost is measured for
//! each job. It is the median of the last few windows of [`WINDOW_BYTES`], so a host that was busy once has little
//! effect. Pure. Bounds: [`WINDOWS`] figures.

/// Seconds of a core per byte before the first window ends: measured on a plain connection.
const BYTE_SECONDS_DEFAULT: f64 = 0.5e-9;
/// Bytes in a window.
pub(in crate::state) const WINDOW_BYTES: u64 = 16 << 20;
/// Windows that are kept: an odd number has one in the middle.
const WINDOWS: usize = 5;
/// The most bytes or nanoseconds that a process may report between two heartbeats: more is nonsense, and sums would
/// overflow.
const SAID_MAX: u64 = 1 << 48;
/// The most seconds of a core per byte: more is nonsense, too.
const BYTE_SECONDS_MAX: f64 = 1e-6;

/// The cost at one end: at workers, or at consumers.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct EndpointCost {
    bytes: u64,
    nanos: u64,
    /// Seconds per byte in each of the last windows, and how many windows there were.
    recent: [f64; WINDOWS],
    windows: usize,
}

impl EndpointCost {
    /// Adds bytes, and the nanoseconds of threads that they took.
    pub(in crate::state) fn add(&mut self, bytes: u64, nanos: u64) {
        self.bytes += bytes.min(SAID_MAX);
        self.nanos += nanos.min(SAID_MAX);
        if self.bytes >= WINDOW_BYTES {
            self.recent[self.windows % WINDOWS] = (self.nanos as f64 / 1e9 / self.bytes as f64).min(BYTE_SECONDS_MAX);
            (self.bytes, self.nanos, self.windows) = (0, 0, self.windows + 1);
        }
    }

    /// Returns the seconds of a core per byte.
    pub(in crate::state) fn of_byte(&self) -> f64 {
        let mut sorted = self.recent;
        let known = &mut sorted[..self.windows.min(WINDOWS)];
        known.sort_by(f64::total_cmp);
        known.get(known.len() / 2).copied().unwrap_or(BYTE_SECONDS_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_byte_takes_is_known_after_a_window_and_one_odd_window_says_little() {
        let mut cost = EndpointCost::default();
        cost.add(WINDOW_BYTES / 2, WINDOW_BYTES);
        assert_eq!(cost.of_byte(), BYTE_SECONDS_DEFAULT, "not enough");
        cost.add(WINDOW_BYTES / 2, WINDOW_BYTES);
        assert_eq!(cost.of_byte(), 2e-9);
        cost.add(WINDOW_BYTES, 90 * WINDOW_BYTES);
        (0..3).for_each(|_| cost.add(WINDOW_BYTES, 3 * WINDOW_BYTES));
        assert_eq!(cost.of_byte(), 3e-9);
        (0..3).for_each(|_| cost.add(WINDOW_BYTES, WINDOW_BYTES));
        assert_eq!(cost.of_byte(), 1e-9, "the last five");
        (0..1000).for_each(|_| cost.add(u64::MAX, u64::MAX));
        (0..9).for_each(|_| cost.add(WINDOW_BYTES, u64::MAX));
        assert_eq!(cost.of_byte(), BYTE_SECONDS_MAX);
    }
}
