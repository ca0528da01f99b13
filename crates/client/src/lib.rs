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
mod reports;
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
