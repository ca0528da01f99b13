//! The merge: all code that sees the stream of one consumer in order.
//!
//! - `merge/`: ordered chunks to exact batches
//! - `stream_ops`: ops on rows before they are grouped into batches
//! - `pack/`: token lists of any length to rows of one length
//! - `buckets`: batches of rows of about the same length, or of one key
//! - `chosen_batches`: `take` and `skip` of these batches
//! - `delivery`: the batches and samples of a stream, and the positions at which each begins and ends
//! - `position`: the places in a stream that a saved state can name
//! - `delivered_ahead`: the chunks after a position that were already delivered
//! - `empty_cycle`: the error of a stream that would never have a row
//! - `replay`: the rows that a resumed stream computes again
//! - `saved_state`: the content of a saved state, and the position where a consumer resumes from it

pub(crate) mod buckets;
pub(crate) mod chosen_batches;
pub(crate) mod delivered_ahead;
pub(crate) mod delivery;
pub(crate) mod empty_cycle;
pub(crate) mod merge;
pub(crate) mod pack;
pub(crate) mod position;
pub(crate) mod replay;
pub(crate) mod saved_state;
pub(crate) mod stream_ops;
