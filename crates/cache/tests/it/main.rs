//! The tests of crate `cache` from outside, in one binary, which is linked once.

mod asked;
mod common;
mod flight;
mod folder;
mod given;
mod model;
mod peers;
mod scan;
mod source;
mod store;
