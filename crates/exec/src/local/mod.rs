//! The iterator in this process.
//!
//! - `stream`: the iterator and its threads
//! - `slots`: the morsels that are in progress or done, and the next chunk
//! - `options`: its threads, epochs and bounds
//! - `cursor`: the morsels of a consumer's epochs, in order

mod cursor;
pub(crate) mod options;
mod slots;
pub(crate) mod stream;
