//! Checks whether the delivery that a consumer waits for can still come. This process can tell if it started the
//! service itself.
//!
//! The check runs only while nothing arrives, and at most once in [`CHECK_EVERY`]: it may call the dispatcher.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Result, Ticks};

const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Returns an error with the reason why no delivery can come any more. It gets the `poll` of the waiting caller.
type Check = dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + Send + Sync;

/// A check of the service's life. The default finds every service alive.
#[derive(Clone, Default)]
pub struct LivenessCheck {
    check: Option<Arc<Check>>,
    checked_at: Option<Ticks>,
}

impl LivenessCheck {
    /// Creates a check that calls `check` on the thread that called `next`.
    pub fn new(check: impl Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { check: Some(Arc::new(check)), checked_at: None }
    }

    /// Runs the check, unless it ran a moment ago.
    pub(crate) fn run(&mut self, now: Ticks, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let is_due = self.checked_at.is_none_or(|checked_at| now - checked_at >= CHECK_EVERY);
        let Some(check) = self.check.as_ref().filter(|_| is_due) else { return Ok(()) };
        self.checked_at = Some(now);
        check(poll)
    }
}

impl std::fmt::Debug for LivenessCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivenessCheck").field("checks", &self.check.is_some()).finish_non_exhaustive()
    }
}
