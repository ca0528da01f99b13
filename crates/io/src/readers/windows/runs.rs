//! How far ahead a process requests the bytes of windows.
//!
//! A process that reads a group of lanes alone requests whole blocks. Where others read windows of the group, too, each
//! reads runs of it: 8, 4 or 2 windows that begin at a multiple of their number. What a process requests behind its
//! run, another one requests, too. So a process requests its run at most, and only windows that its threads will read
//! if the next two are not among them.

/// The longest run of a process that shares a group with others.
const RUN_MAX: u64 = 8;
/// After this many consecutive windows a process is taken to be alone.
const ALONE_AFTER: u64 = 4 * RUN_MAX;

/// The windows of one group of lanes that this process has read.
pub(super) struct Runs {
    /// The window behind the last one; `None` before the first.
    next: Option<u64>,
    /// How many consecutive windows were read last.
    read: u64,
    /// The expected length of a run: a power of two.
    expected: u64,
    /// Whether other processes read windows of the group.
    is_shared: bool,
}

impl Default for Runs {
    fn default() -> Self {
        Self { next: None, read: 0, expected: RUN_MAX, is_shared: false }
    }
}

impl Runs {
    /// Says whether other processes read windows of the source, if nothing is known of this group.
    pub(super) fn begin(&mut self, is_shared: bool) {
        self.is_shared |= is_shared && self.next.is_none();
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Notes that a window is read, behind which threads will read the `following` ones. Returns how many windows
    /// behind it are to be requested.
    pub(super) fn windows_ahead(&mut self, window: u64, following: u64) -> u64 {
        let next = self.next.replace(window + 1);
        if next == Some(window) {
            self.read += 1;
            self.expected = self.expected.max(power_of_two(self.read));
            self.is_shared &= self.read <= ALONE_AFTER;
        } else {
            // Another process reads the windows before this one.
            if next.unwrap_or(0) < window {
                self.is_shared = true;
                self.expected = if next.is_some() { power_of_two(self.read) } else { RUN_MAX };
            }
            self.read = 1;
        }
        if next.is_some_and(|next| next > window) {
            // Its bytes were requested before.
            return 0;
        }
        match (self.is_shared, self.read) {
            // The first batch needs only the first windows.
            (false, 1) => 1,
            (false, 2) => 4,
            (false, _) => u64::MAX,
            (true, _) => {
                let left = self.expected - 1 - window % self.expected;
                if following >= left.min(2) { left } else { following }
            }
        }
    }
}

/// Returns the largest power of two up to `read`, at most [`RUN_MAX`].
fn power_of_two(read: u64) -> u64 {
    1 << read.clamp(1, RUN_MAX).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(runs: &mut Runs, windows: std::ops::Range<u64>, following: u64) -> Vec<u64> {
        windows.map(|window| runs.windows_ahead(window, following)).collect()
    }

    #[test]
    fn a_process_that_is_alone_soon_requests_whole_blocks() {
        let mut runs = Runs::default();
        assert_eq!(ahead(&mut runs, 0..4, 0), [1, 4, u64::MAX, u64::MAX]);
        assert_eq!(ahead(&mut runs, 2..3, 0), [0], "the bytes of earlier windows were requested before");
    }

    #[test]
    fn a_process_that_shares_a_group_requests_its_run() {
        let mut runs = Runs::default();
        assert_eq!(ahead(&mut runs, 8..16, 3), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(ahead(&mut runs, 24..28, 3), [7, 6, 5, 4]);
        assert_eq!(ahead(&mut runs, 32..36, 3), [3, 2, 1, 0], "its runs are shorter now");
        assert_eq!(ahead(&mut runs, 40..41, 1), [1], "its threads will read one more");
        assert_eq!(ahead(&mut runs, 42..43, 0), [0]);
        let later = ahead(&mut runs, 64..64 + ALONE_AFTER + 1, 3);
        assert_eq!(later[ALONE_AFTER as usize - 1..], [0, u64::MAX], "no other process reads");
    }
}
