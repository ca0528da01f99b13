//! A disk that failed (full, gone, not to be written to) is left alone for a while, and then tried again with the next block.
//!
//! The pause doubles from [`FIRST`] to [`LAST`] while it goes on to fail, so that a disk that stays broken costs a try now and then, and
//! one that was full for a moment is used again. Nothing is decided on time but that; rows are the same, whatever is kept.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::Stopwatch;

use crate::lock::lock;

/// The pause after the first failure, and the longest.
const FIRST: Duration = Duration::from_secs(30);
const LAST: Duration = Duration::from_secs(600);

/// Whether a disk is left alone, and why.
pub(crate) struct Backoff {
    failed: Mutex<Option<Failed>>,
    watch: Arc<dyn Stopwatch>,
}

struct Failed {
    why: String,
    pause: Duration,
    /// By the stopwatch.
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

    /// It failed: nothing is written for a while. Says why, when that is news.
    pub(crate) fn fail(&self, why: &str) {
        let now = self.watch.nanos();
        let mut failed = lock(&self.failed);
        let pause = match &*failed {
            // Others failed at the same time.
            Some(before) if now < before.until => return,
            Some(before) => (before.pause * 2).min(LAST),
            None => FIRST,
        };
        if failed.as_ref().is_none_or(|before| before.why != why) {
            tracing::warn!(why, "no more rows are kept on disk for now; jobs go on without, and it is tried again");
        }
        *failed = Some(Failed { why: why.to_owned(), pause, until: now.saturating_add(pause.as_nanos() as u64) });
    }

    /// It works.
    pub(crate) fn succeed(&self) {
        if lock(&self.failed).take().is_some() {
            tracing::info!("rows are kept on disk again");
        }
    }

    /// Says why nothing is written: since it failed, and until it has worked again.
    pub(crate) fn why(&self) -> Option<String> {
        lock(&self.failed).as_ref().map(|failed| failed.why.clone())
    }

    /// Says whether it is left alone now. When the time is up, the next block is a try.
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
