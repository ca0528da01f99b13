//! The tests of crate `policy-lab` from outside, in one binary, which is linked once.

mod caching;
mod common;
mod conformance;
mod golden;
mod kinds;
mod models;
mod pecan;
mod placement;
mod simulate;
