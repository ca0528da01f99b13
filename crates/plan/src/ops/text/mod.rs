//! Ops on text and tokens.

mod checks;
mod pack;
mod tokenize;

pub use pack::{Pack, Packing};
pub use tokenize::Tokenize;
