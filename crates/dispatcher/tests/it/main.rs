//! The tests of crate `dispatcher` from outside, in one binary, which is linked once.

mod common;
mod retention;
mod service;
mod tenants;
mod upgrade;
