//! Samples that fail: isolated, skipped, counted, recorded.
//!
//! - `isolation`: finds the rows of a chunk that fail, and runs the op without them
//! - `skip_log`: counts the samples that one consumer skips, against its error budget
//! - `known_skips`: the rows that a stream must skip again
//! - `saved_skip`: a skipped sample in a saved state

pub(crate) mod isolation;
pub(crate) mod known_skips;
pub(crate) mod saved_skip;
pub(crate) mod skip_log;
