//! How a caller who waits for a store is asked whether to go on.

use std::sync::Arc;

use forebay_core::Result;

/// Asked ten times a second by whoever waits for a store, on its own thread. An error ends what is waited for with that error (Ctrl-C).
pub type Poll = Arc<dyn Fn() -> Result<()> + Send + Sync>;
