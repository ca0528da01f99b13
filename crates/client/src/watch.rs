//! Whether what a reader waits for can still come, where this process can tell: it started the service itself.
//!
//! It is asked only in silence, and seldom: whoever looks may ask the dispatcher.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Result, Ticks};

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);

/// Says why nothing can come any more, as an error. It is handed the `poll` of whoever waits.
type Look = dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + Send + Sync;

/// Who is asked.
#[derive(Clone, Default)]
pub struct Watch {
    look: Option<Arc<Look>>,
    looked: Option<Ticks>,
}

impl Watch {
    /// Asks `look`, on the thread of whoever called `next`.
    pub fn new(look: impl Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { look: Some(Arc::new(look)), looked: None }
    }

    /// Looks, unless that was done a moment ago.
    pub(crate) fn look(&mut self, now: Ticks, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(look) = self.look.as_ref().filter(|_| self.looked.is_none_or(|looked| now - looked >= LOOK)) else {
            return Ok(());
        };
        self.looked = Some(now);
        look(poll)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("looks", &self.look.is_some()).finish_non_exhaustive()
    }
}
