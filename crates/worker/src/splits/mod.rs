//! The splits that this worker has leased, from the lease until their consumer has consumed them.
//!
//! - `lease_table`: all leases, by split, and the jobs that they belong to
//! - `jobs`: one job: its definition, and the executable that is built from it once
//! - `split_buffer`: the chunks of one split, in order
//! - `chunk`: one chunk as it is produced
//! - `cursor`: the position of one consumer in a split, without I/O
//! - `shared_chunks`: chunks that jobs with the same samples share
//! - `single_flight`: decides which of these jobs computes a chunk

pub(crate) mod chunk;
pub(crate) mod cursor;
pub(crate) mod jobs;
pub(crate) mod lease_table;
pub(crate) mod shared_chunks;
pub(crate) mod single_flight;
pub(crate) mod split_buffer;
