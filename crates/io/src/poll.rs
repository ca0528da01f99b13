//! The check for cancellation while a thread waits for a store.

use std::sync::Arc;

use forebay_core::Result;

/// A thread that waits for a store calls this ten times a second. An error (Ctrl-C) ends the wait, and the waiting
/// call returns that error.
pub type Poll = Arc<dyn Fn() -> Result<()> + Send + Sync>;
