//! A service delivers the same batches, in the same order, as this process, even if processes die on the way.

mod cluster;
mod deaths;
mod functions;
mod streams;
