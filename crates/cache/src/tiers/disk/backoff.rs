//! Backoff of a disk that failed (full, gone, read-only): nothing is written for a while, and then the next block is a
//! trial.
//!
//! The pause doubles from [`FIRST`] to [`LAST`] while the disk keeps failing, so that a broken disk costs an occasional
//! trial, and a disk that was full for a moment is used again. Time decides nothing else: the rows are the same, kept
//! or not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::Stopwatch;

use crate::lock::lock;

/// The pause after the first failure, and the longest.
const FIRST: Duration = Duration::from_secs(30);
const LAST: Duration = Duration::from_secs(600);

/// See the module's documentation.
pub(crate) struct Backoff {
    failed: Mutex<Option<Failed>>,
    watch: Arc<dyn Stopwatch>,
}

struct Failed {
    why: String,
    pause: Duration,
    /// The end of the pause, by the stopwatch.
    until: u64,
}

impl std::fmt::Debug for Backoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backoff").field("why", &self.why()).finish_non_exhaustive()
    }
}

impl Backoff {
    pub(crate) fn new(watch: Arc<dyn Stopwatch>) -> Self {
        Self { failed: Mutex::default(), watch }
    }

    /// Records a failure: nothing is written for a while. Logs the reason, if it is new.
    pub(crate) fn fail(&self, why: &str) {
        let now = self.watch.nanos();
        let mut failed = lock(&self.failed);
        let pause = match &*failed {
            // Concurrent writes failed, too.
            Some(before) if now < before.until => return,
            Some(before) => (before.pause * 2).min(LAST),
            None => FIRST,
        };
        if failed.as_ref().is_none_or(|before| before.why != why) {
            tracing::warn!(why, "no more rows are kept on disk for now; jobs go on without, and it is tried again");
        }
        *failed = Some(Failed { why: why.to_owned(), pause, until: now.saturating_add(pause.as_nanos() as u64) });
    }

    /// Records a success.
    pub(crate) fn succeed(&self) {
        if lock(&self.failed).take().is_some() {
            tracing::info!("rows are kept on disk again");
        }
    }

    /// Returns why nothing is written, from a failure until the next success.
    pub(crate) fn why(&self) -> Option<String> {
        lock(&self.failed).as_ref().map(|failed| failed.why.clone())
    }

    /// Says whether nothing is written now. After the pause, the next block is a trial.
    pub(crate) fn is_on(&self) -> bool {
        lock(&self.failed).as_ref().is_some_and(|failed| self.watch.nanos() < failed.until)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// A stopwatch that is set by hand, in seconds.
    #[derive(Default)]
    pub(super) struct Hand(AtomicU64);

    impl Stopwatch for Hand {
        fn nanos(&self) -> u64 {
            self.0.load(Relaxed) * 1_000_000_000
        }
    }

    #[test]
    fn a_disk_that_failed_is_left_alone_for_longer_and_longer_and_used_when_it_works() {
        let hand = Arc::new(Hand::default());
        let pause = Backoff::new(hand.clone());
        assert!(!pause.is_on() && pause.why().is_none());
        let mut at = 0;
        for seconds in [30, 60, 120, 240, 480, 600, 600] {
            pause.fail("full");
            pause.fail("full, says another");
            assert_eq!(pause.why().as_deref(), Some("full"));
            hand.0.store(at + seconds - 1, Relaxed);
            assert!(pause.is_on(), "{seconds}");
            at += seconds;
            hand.0.store(at, Relaxed);
            assert!(!pause.is_on() && pause.why().is_some(), "{seconds}");
        }
        pause.succeed();
        assert!(!pause.is_on() && pause.why().is_none());
        pause.fail("full");
        hand.0.store(at + 30, Relaxed);
        assert!(!pause.is_on(), "it begins anew");
    }
}
