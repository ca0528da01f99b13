//! The child's side: its leash says how many threads it has; anything else on it, or its end, ends the process.

#![expect(clippy::disallowed_methods, reason = "a thread ends the worker with its trainer")]

use std::io::BufRead;

use forebay_core::Result;
use forebay_worker::Throttle;

/// What a line that sets the number of threads begins with.
const THREADS: &str = "threads ";

/// Returns the line that says how many threads there are from now on.
pub(super) fn line(threads: usize) -> String {
    format!("{THREADS}{threads}")
}

/// Does what the parent says on stdin, until it says to end, or is gone. `leave` is called before the end, and must be brief.
///
/// # Errors
/// Exhausted when no thread can be started.
pub(crate) fn obey_parent(throttle: Throttle, leave: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name("forebay-parent".to_owned()).spawn(move || {
        for said in std::io::stdin().lock().lines() {
            let threads = said.ok().as_deref().and_then(|said| said.strip_prefix(THREADS)?.parse().ok());
            let Some(threads) = threads else { break };
            throttle.set_threads(threads);
        }
        leave();
        std::process::exit(0);
    })?;
    Ok(())
}
