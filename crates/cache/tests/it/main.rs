//! The integration tests of crate `cache`, in one binary, which is linked once.

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
