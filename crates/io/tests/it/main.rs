//! The integration tests of crate `io`, in one binary, which is linked once.

#![expect(clippy::disallowed_methods, reason = "tests poll, measure, and start a server")]

mod check_format;
mod compressed;
mod errors;
mod golden;
mod properties;
mod remote;
mod speed;
mod support;
mod windows;
