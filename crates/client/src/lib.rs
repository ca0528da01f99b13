//! Consumes a job: opens it, streams its splits from the workers, puts them in order, acknowledges.
//!
//! ```text
//! Service        a dispatcher: open_job, jobs, workers, cancel
//! ServiceStream  one consumer of a job: next() gives the same deliveries as a stream in this process
//!   session      the Consume stream to the dispatcher: who holds what comes in, what was consumed goes out
//!   fetch        one split from one worker, chunk by chunk
//!   borrower     the memory of a worker on this machine, so that its chunks are not copied
//!   window       chunks by (epoch, split, index), whatever order they come in
//!   merge        exact batches (forebay_exec::Merge)
//! ```
//!
//! The API is synchronous: a training loop calls it from any thread. Inside, one tokio runtime serves every stream of
//! the process. Invariants: C-1 what is delivered is in the order of (epoch, split, chunk), each chunk once, whoever
//! sent it; C-2 a chunk is taken only when its index and its checksum are right; C-3 what waits here is bounded;
//! C-4 an epoch's end is known from the plan, and waited for from nobody.

mod blobs;
mod borrower;
mod decode;
mod fetch;
mod job;
mod link;
mod lock;
mod options;
mod runtime;
mod service;
mod session;
mod stream;
mod window;
mod workers;

pub use forebay_proto::{ConsumerStatus, JobStatus, WorkerStatus};
pub use job::{JobSpec, OpenedJob};
pub use options::StreamOptions;
pub use service::Service;
pub use stream::ServiceStream;

/// Reads the messages of a stream as a consumer does: a schema, then parts of one chunk. For the fuzzer alone.
///
/// # Errors
/// Data when they are not a chunk of the schema.
#[doc(hidden)]
pub fn decode_messages(
    messages: Vec<arrow_flight::FlightData>,
    schema: &std::sync::Arc<forebay_data::Schema>,
) -> forebay_core::Result<forebay_data::Chunk> {
    let mut messages = messages.into_iter();
    let wire = decode::schema(&messages.next().unwrap_or_default())?;
    decode::chunk(messages.collect(), &wire, schema)
}
