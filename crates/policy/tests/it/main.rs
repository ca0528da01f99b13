//! The tests of crate `policy` from outside, in one binary, which is linked once.

mod caching;
mod common;
mod fleet;
mod golden;
mod kinds;
mod models;
mod pecan;
mod placement;
mod simulate;
