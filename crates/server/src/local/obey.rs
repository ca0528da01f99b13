//! The child's side: a line on its stdin sets the number of its threads; other input, or the end, ends the process.

use std::io::BufRead;

use forebay_core::Result;
use forebay_worker::Throttle;

/// The beginning of a line that sets the number of threads.
const THREADS: &str = "threads ";

/// Returns the line that sets the number of threads.
pub(super) fn line(threads: usize) -> String {
    format!("{THREADS}{threads}")
}

/// Obeys the parent's lines on stdin, until one means the end, or the parent is gone. Calls `leave` before the end,
/// which must be brief.
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
