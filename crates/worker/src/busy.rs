//! What the threads of a worker are at, and which of them are held up. Pure: the time is an argument.
//!
//! A read that hangs must not take a thread from other jobs for longer than [`HELD_UP_AFTER`], and no longer than
//! [`CANCELLED_AFTER`] once its job was cancelled. A thread in a call of the system cannot be ended, so another one computes in its
//! place; when it comes back it is one of those that compute again. A reader's line with such a thread is served after all
//! others, so that a job has at most as many of them as there are threads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::turns::Line;

/// How long a thread may bring nothing while others wait for one.
pub(crate) const HELD_UP_AFTER: Duration = Duration::from_secs(20);
/// The same, of work that nobody wants any more.
pub(crate) const CANCELLED_AFTER: Duration = Duration::from_secs(1);

/// One piece of work that a thread is at.
pub(crate) type PieceId = u64;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Computing,
    /// It waits for a reader, or before it asks a storage again.
    Aside,
    /// It hangs, and another computes in its place.
    HeldUp,
}

struct At {
    line: Option<Line>,
    /// Says whether nobody wants it any more.
    is_stale: Box<dyn Fn() -> bool + Send>,
    /// When it last brought something.
    since: Instant,
    is: Is,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Busy {
    next: PieceId,
    at: BTreeMap<PieceId, At>,
    computing: usize,
}

impl Busy {
    /// Returns how many threads compute.
    pub(crate) fn computing(&self) -> usize {
        self.computing
    }

    /// Returns how many threads are held up.
    pub(crate) fn held_up(&self) -> usize {
        self.at.values().filter(|at| at.is == Is::HeldUp).count()
    }

    /// Returns the lines that have a thread which is held up.
    pub(crate) fn lines_held_up(&self) -> Vec<Line> {
        self.at.values().filter(|at| at.is == Is::HeldUp).filter_map(|at| at.line).collect()
    }

    /// A thread begins with a piece of a line; `None` helps another one.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        line: Option<Line>,
        is_stale: impl Fn() -> bool + Send + 'static,
    ) -> PieceId {
        self.next += 1;
        self.computing += 1;
        self.at.insert(self.next, At { line, is_stale: Box::new(is_stale), since: now, is: Is::Computing });
        self.next
    }

    /// A piece has ended.
    pub(crate) fn end(&mut self, id: PieceId) {
        if self.at.remove(&id).is_some_and(|at| at.is == Is::Computing) {
            self.computing -= 1;
        }
    }

    /// A piece has brought something: its thread computes.
    pub(crate) fn go_on(&mut self, now: Instant, id: PieceId) {
        if let Some(at) = self.at.get_mut(&id) {
            self.computing += usize::from(at.is != Is::Computing);
            (at.is, at.since) = (Is::Computing, now);
        }
    }

    /// A thread waits, until [`Busy::go_on`]. Says whether another may compute in its place.
    pub(crate) fn step_aside(&mut self, id: PieceId) -> bool {
        self.leave(id, Is::Aside)
    }

    fn leave(&mut self, id: PieceId, is: Is) -> bool {
        let Some(at) = self.at.get_mut(&id) else { return false };
        let computed = at.is == Is::Computing;
        (at.is, self.computing) = (is, self.computing - usize::from(computed));
        computed
    }

    /// Returns a thread that is held up and was not before, if there is one: another is to compute in its place. `waits` says whether
    /// somebody of another line waits for a thread.
    pub(crate) fn next_held_up(&mut self, now: Instant, waits: impl Fn(Option<Line>) -> bool) -> Option<Duration> {
        let is_late = |at: &At| {
            let silent = now.saturating_duration_since(at.since);
            at.is == Is::Computing
                && silent >= CANCELLED_AFTER
                && waits(at.line)
                && (silent >= HELD_UP_AFTER || (at.is_stale)())
        };
        let (id, silent) = self.at.iter().find(|(_, at)| is_late(at)).map(|(id, at)| (*id, now - at.since))?;
        self.leave(id, Is::HeldUp);
        Some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_thread_that_brings_nothing_is_replaced_once_and_comes_back() {
        let (mut busy, now) = (Busy::default(), Instant::now());
        let (slow, good) = (busy.begin(now, Some((1, 0)), || false), busy.begin(now, Some((2, 0)), || false));
        let late = now + HELD_UP_AFTER;
        busy.go_on(late, good);
        assert_eq!(busy.next_held_up(late, |_| false), None, "nobody waits for a thread");
        assert_eq!(busy.next_held_up(late - Duration::from_millis(1), |_| true), None);
        assert_eq!(busy.next_held_up(late, |_| true), Some(HELD_UP_AFTER));
        assert_eq!((busy.next_held_up(late, |_| true), busy.computing(), busy.held_up()), (None, 1, 1));
        assert_eq!(busy.lines_held_up(), [(1, 0)]);
        busy.go_on(late, slow);
        assert_eq!((busy.computing(), busy.held_up()), (2, 0), "it goes on");
        busy.next_held_up(late + HELD_UP_AFTER, |_| true);
        busy.next_held_up(late + HELD_UP_AFTER, |_| true);
        [slow, good].into_iter().for_each(|id| busy.end(id));
        assert_eq!((busy.computing(), busy.held_up()), (0, 0));
    }

    #[test]
    fn work_that_nobody_wants_is_left_sooner_and_one_that_waits_is_not_held_up() {
        let (mut busy, now) = (Busy::default(), Instant::now());
        let cancelled = Arc::new(AtomicBool::new(false));
        let is_cancelled = cancelled.clone();
        let piece = busy.begin(now, Some((1, 0)), move || is_cancelled.load(Relaxed));
        let later = now + CANCELLED_AFTER;
        assert_eq!(busy.next_held_up(later, |_| true), None);
        cancelled.store(true, Relaxed);
        assert!(busy.step_aside(piece) && !busy.step_aside(piece));
        assert_eq!((busy.next_held_up(later, |_| true), busy.computing()), (None, 0), "it waits for its reader");
        busy.go_on(now, piece);
        assert_eq!(busy.next_held_up(later, |_| true), Some(CANCELLED_AFTER));
    }
}
