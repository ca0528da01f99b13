//! The integration tests of crate `cache`, in one binary, which is linked once.

#![expect(
    clippy::disallowed_methods,
    reason = "tests poll, start threads and processes, and read what they were started with"
)]

mod common;
mod conformance;
mod folder;
mod in_flight;
mod model;
mod pages;
mod peer_client;
mod peers;
mod scan;
mod store;
