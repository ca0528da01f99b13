//! How long a window is: as long as it takes for its figures to say something.
//!
//! Whoever makes [`Observation`](super::Observation)s cuts time by this: the dispatcher, and the simulator.

use std::time::Duration;

/// The shortest window.
pub const WINDOW: Duration = Duration::from_secs(2);
/// A window with any batch is no longer than this, and one without any than [`WINDOW_MAX`].
pub const WINDOW_SPARSE: Duration = Duration::from_secs(6);
/// The longest.
pub const WINDOW_MAX: Duration = Duration::from_secs(60);
/// How often windows are looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Batches that make a window short.
const BATCHES: u64 = 8;

/// Returns how long a window with so many batches lasts at least.
pub fn lasts(batches: u64) -> Duration {
    match batches {
        0 => WINDOW_MAX,
        1..BATCHES => WINDOW_SPARSE,
        _ => WINDOW,
    }
}
