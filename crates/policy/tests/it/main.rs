//! The tests of crate `policy` from outside, in one binary, which is linked once.

mod fleet;
