//! Ops on text and tokens.

mod pack;
mod tokenize;

pub use pack::{Pack, Packing};
pub use tokenize::Tokenize;

/// The most tokens of a packed row, and of a text that is cut.
const LENGTH_MAX: usize = 1 << 24;
