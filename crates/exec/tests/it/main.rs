//! The integration tests of crate `exec`, in one binary, which is linked once.

mod annotated;
mod autocache;
mod boundaries;
mod cached;
mod check_op;
mod clips;
mod common;
mod local_stream;
mod metered;
mod reordered;
