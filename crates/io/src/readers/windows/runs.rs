//! How far ahead a process requests the bytes of windows.
//!
//! A process that reads a group of lanes alone requests whole blocks. Where others read windows of the group, too, each
//! reads runs of them, and requests only the windows that its threads will read: what it requests behind its run,
//! another process requests, too.
//!
//! A process is alone while it reads some window of each four consecutive ones. Ranks that read through one process may
//! be out of step, so a window that is passed over may be read later.

/// How many of the latest windows decide whether a process is alone. They are bits of a number.
const LATEST: u64 = u64::BITS as u64;
/// Windows of which a process that is alone reads at least one.
const BLOCK: u64 = 4;
/// Before this window, the process is taken to be alone in a group if it was in the group before.
const KNOWN_FROM: u64 = 4 * BLOCK;

/// The windows of one group of lanes that this process has read.
#[derive(Default)]
pub(super) struct Runs {
    /// The window behind the last one; `None` before the first.
    next: Option<u64>,
    /// How many consecutive windows were read before the last one.
    run: u64,
    /// The last window in the group's order.
    newest: u64,
    /// Which of the latest windows were read: bit `n` is that of `newest - n`.
    read: u64,
    was_shared: bool,
}

impl Runs {
    /// Says whether the process shared the group that it read before, if it has not read this one yet.
    pub(super) fn begin(&mut self, was_shared: bool) {
        if self.next.is_none() {
            self.was_shared = was_shared;
        }
    }

    /// Returns whether other processes read windows of the group.
    pub(super) fn is_shared(&self) -> bool {
        let first = (self.newest + 1).saturating_sub(LATEST).next_multiple_of(BLOCK);
        let blocks = (first..self.newest / BLOCK * BLOCK).step_by(BLOCK as usize);
        let is_read = |window: u64| self.read >> (self.newest - window) & 1 == 1;
        let passes_over = blocks.into_iter().any(|block| !(block..block + BLOCK).any(is_read));
        passes_over || self.was_shared && self.newest < KNOWN_FROM
    }

    /// Notes that a window is read, behind which threads will read the `following` ones. Returns how many windows
    /// behind it are to be requested.
    pub(super) fn windows_ahead(&mut self, window: u64, following: u64) -> u64 {
        let next = self.next.replace(window + 1);
        self.run = match next {
            Some(next) if next == window => self.run + 1,
            // A process that reads the first window of an epoch most likely also reads the second one.
            None => u64::from(window == 0),
            Some(_) => 0,
        };
        self.note(window);
        match (self.run, self.is_shared()) {
            // Its bytes were requested before.
            _ if next.is_some_and(|next| next > window) => 0,
            (_, true) => following,
            // The first batch needs only the first windows.
            (1, false) if window == 0 => 1,
            (run @ 0..=1, false) => following.max(run),
            (2, false) => following.max(4),
            (_, false) => u64::MAX,
        }
    }

    fn note(&mut self, window: u64) {
        if let Some(more) = window.checked_sub(self.newest) {
            self.newest = window;
            self.read = self.read.checked_shl(more.min(u64::from(u32::MAX)) as u32).unwrap_or(0);
        }
        self.read |= 1u64.checked_shl((self.newest - window).min(LATEST) as u32).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(runs: &mut Runs, windows: impl IntoIterator<Item = u64>, following: u64) -> Vec<u64> {
        windows.into_iter().map(|window| runs.windows_ahead(window, following)).collect()
    }

    #[test]
    fn a_process_that_is_alone_soon_requests_whole_blocks() {
        let mut runs = Runs::default();
        assert_eq!(ahead(&mut runs, 0..4, 3), [1, 4, u64::MAX, u64::MAX]);
        assert_eq!(ahead(&mut runs, 2..3, 3), [0], "the bytes of earlier windows were requested before");
        assert_eq!(ahead(&mut Runs::default(), 0..3, 0), [1, 4, u64::MAX]);
    }

    #[test]
    fn a_process_that_shares_a_group_requests_what_its_threads_will_read() {
        let mut runs = Runs::default();
        assert_eq!(ahead(&mut runs, 8..11, 3), [3, 3, 3]);
        assert_eq!(ahead(&mut runs, 24..27, 2), [2, 2, 2]);
        let later = ahead(&mut runs, 27..120, 2);
        assert_eq!(later.last(), Some(&u64::MAX), "no other process reads any more");
        let mut next = Runs::default();
        next.begin(true);
        assert_eq!(ahead(&mut next, 0..4, 2), [2, 2, 2, 2], "as in the epoch before");
        assert_eq!(ahead(&mut next, 4..17, 2).last(), Some(&u64::MAX));
    }

    /// Of two ranks that read through one process, one is ahead.
    #[test]
    fn a_process_whose_ranks_are_out_of_step_is_alone() {
        let mut runs = Runs::default();
        ahead(&mut runs, (1..40).step_by(2), 0);
        assert!(!runs.is_shared());
        ahead(&mut runs, (0..40).step_by(2), 0);
        assert!(!runs.is_shared());
        // Of eight ranks, until the others follow.
        let mut runs = Runs::default();
        ahead(&mut runs, (7..40).step_by(8), 0);
        assert!(runs.is_shared());
        ahead(&mut runs, (0..40).step_by(8), 0);
        assert!(!runs.is_shared());
    }
}
