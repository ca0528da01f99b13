//! Consumes a job: opens it, streams its splits from the workers, puts them in order, acknowledges.
//!
//! ```text
//! Service        a dispatcher: open_job, jobs, workers, cancel
//!   leader       the connection to it; of several, to the one that leads
//! ServiceStream  one consumer of a job: next() gives the same deliveries as a stream in this process
//!   session      the Consume stream to the dispatcher: who holds what comes in, what was consumed goes out
//!   talk         what is said in it, without I/O
//!   fetch        one split from one worker, chunk by chunk
//!   finish       the ops that a worker left to do on a chunk
//!   connection   what is asked of a worker, and what comes
//!   borrower     the memory of a worker on this machine, so that its chunks are not copied
//!   debts        what was borrowed of it, and what is said when that is needed no more
//!   watch        whether what it waits for can still come
//!   window       chunks by (epoch, split, index), whatever order they come in
//!   seat         what it and its local worker say to each other
//!   reports      what was left out, until the dispatcher has written it down
//!   ahead        what was merged before all readers are known to have as much, where they end epochs together
//!   steps        what is said and heard of that
//!   reader       what the user gets next, and what was consumed, without I/O
//!   merge        exact batches (forebay_exec::Merge)
//! ```
//!
//! The API is synchronous: a training loop calls it from any thread. Inside, one tokio runtime serves every stream of
//! the process. Invariants: C-1 what is delivered is in the order of (epoch, split, chunk), each chunk once, whoever
//! sent it; C-2 a chunk is taken only when its index and its checksum are right; C-3 what waits here is bounded;
//! C-4 an epoch's end is known from the plan, and waited for from nobody.

mod ahead;
mod blobs;
mod borrower;
mod connection;
mod debts;
mod decode;
mod fetch;
mod finish;
mod job;
mod leader;
mod link;
mod lock;
mod meter;
mod once;
mod options;
mod reader;
mod reports;
mod runtime;
mod seat;
mod service;
mod session;
#[doc(hidden)]
pub mod simulate;
mod steps;
mod stream;
mod talk;
mod watch;
mod window;
mod workers;

pub use forebay_proto::{
    ConsumerStatus, Credentials, GetScaleResponse, JobKey, JobStatus, KindWanted, OpStatus, PORT, Remote,
    ScaleDecision, Spare, TlsFiles, Worked, WorkerCaching, WorkerStatus,
};
pub use job::{JobSpec, OpenedJob};
pub use options::StreamOptions;
pub use seat::{Look, Seat};
pub use service::Service;
pub use stream::ServiceStream;
pub use watch::Watch;

/// Reads the messages of one chunk as a consumer does. For the fuzzer alone.
///
/// # Errors
/// Data when they are not a chunk of the schema.
#[doc(hidden)]
pub fn decode_messages(
    messages: Vec<arrow_flight::FlightData>,
    schema: &std::sync::Arc<forebay_data::Schema>,
    with_ids: bool,
) -> forebay_core::Result<forebay_data::Chunk> {
    use forebay_proto::{ChunkHead, Large};
    let wire = forebay_data::Chunk::wire_schema(schema, with_ids);
    for message in &messages {
        let elsewhere: Vec<usize> = match ChunkHead::open(message)?.large {
            Large::Inside => continue,
            Large::Lent(lent) => lent.columns.iter().map(|c| c.column as usize).collect(),
            Large::Apart(columns) => columns.iter().map(|c| c.column as usize).collect(),
        };
        let rest = decode::rest(message.clone(), &elsewhere, &wire, schema)?;
        elsewhere.iter().try_for_each(|&column| decode::bytes_of(column, rest.num_rows(), schema).map(drop))?;
        return Ok(rest);
    }
    decode::chunk(messages, &wire, schema)
}
