//! The integration tests of crate `io`, in one binary, which is linked once.

mod compressed;
mod errors;
mod golden;
mod properties;
mod remote;
mod speed;
mod support;
mod windows;
