//! Fetches assigned splits from workers, chunk by chunk.
//!
//! ```text
//! fetcher         Fetcher: streams one split from one worker into the reorder buffer
//! attempt         FetchAttempt: the action after a stream of chunks ended, without I/O
//! workers         Workers: known workers, and their idle connections
//! split_trace     SplitTrace: the way of a split, for a trace
//! connection      Connection: requests to a worker, frames from it
//! decode          frames to chunks
//! remaining_ops   the row ops that a worker left to this process
//! shm             ShmConnection: chunks in the shared memory of a worker on this host, without copies
//! loans           Loans: the borrowed parts of that memory, and the messages that return them
//! ```

pub(crate) mod attempt;
pub(crate) mod connection;
pub(crate) mod decode;
pub(crate) mod fetcher;
pub(crate) mod loans;
pub(crate) mod remaining_ops;
pub(crate) mod shm;
pub(crate) mod split_trace;
pub(crate) mod workers;
