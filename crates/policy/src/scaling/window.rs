//! The length of a window: long enough for meaningful figures.
//!
//! Both makers of [`Observation`](super::Observation)s, the dispatcher and the simulator, use it.

use std::time::Duration;

/// The shortest window.
pub const WINDOW: Duration = Duration::from_secs(2);
/// The longest window with any batch; a window without batches lasts up to [`WINDOW_MAX`].
pub const WINDOW_SPARSE: Duration = Duration::from_secs(6);
/// The longest window.
pub const WINDOW_MAX: Duration = Duration::from_secs(60);
/// The interval at which windows are checked.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The batches from which a window is short.
const BATCHES: u64 = 8;

/// Returns the least length of a window with so many batches.
pub fn lasts(batches: u64) -> Duration {
    match batches {
        0 => WINDOW_MAX,
        1..BATCHES => WINDOW_SPARSE,
        _ => WINDOW,
    }
}
