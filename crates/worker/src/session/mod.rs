//! The session with the dispatcher.
//!
//! - `protocol`: the worker's side of it without I/O and without a clock
//! - `transport`: drives the protocol over gRPC, and reconnects

pub(crate) mod protocol;
pub(crate) mod transport;
