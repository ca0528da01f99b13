//! The client side of a job: opens it, fetches its splits from the workers, puts them in order, acknowledges them.
//!
//! ```text
//! service         Service: the calls to the dispatcher (open_job, jobs, workers, scale, cancel, forget)
//! job, opening    JobSpec, OpenedJob: a job to open, and an opened one; how a job is opened
//! mix             OpenedMix: datasets that are jobs, and are mixed in this process
//! blobs           uploads the blobs of a graph
//! leader          the connection to the dispatcher; of several, to the leader
//! retry           retries of calls that are not idempotent
//! stream/         ServiceStream: one consumer of a job, and the state that it shares with its tasks
//! session/        the Consume session with the dispatcher: assignments in, acknowledgements out
//! fetch/          fetches assigned splits from workers into the reorder buffer
//! local_worker    the slot shared by a consumer and its local worker
//! options         StreamOptions, and bounds
//! runtime         the tokio runtime of this process
//! lock            mutexes without poisoning
//! simulate        the interface for crates/sim
//! ```
//!
//! The API is synchronous: a training loop calls it from any thread. One tokio runtime serves all streams of the
//! process. `ServiceStream::next` returns the same deliveries as a stream that computes in this process;
//! `forebay_exec::Merge` makes the batches. Invariants:
//!
//! - C-1 chunks are delivered in the order of (epoch, split, chunk), each once, from any worker.
//! - C-2 a chunk is accepted only if its index and its checksum are right.
//! - C-3 the memory of chunks that wait in this process is bounded.
//! - C-4 the end of an epoch follows from the plan; a consumer waits for no message about it.

mod blobs;
mod fetch;
mod job;
mod leader;
mod local_worker;
mod lock;
mod mix;
mod opening;
mod options;
mod retry;
mod runtime;
mod service;
mod session;
#[doc(hidden)]
pub mod simulate;
mod stream;

pub use forebay_proto::{
    ConsumerStatus, Credentials, GetScaleResponse, JobKey, JobStatus, KindWanted, OpStatus, PORT, Remote,
    ScaleDecision, Spare, TlsFiles, Worked, WorkerCaching, WorkerStatus,
};
pub use job::{JobSpec, OpenedJob};
pub use local_worker::{HostProbe, LocalWorkerSlot};
pub use mix::OpenedMix;
pub use options::StreamOptions;
pub use service::{Service, Trace};
pub use stream::liveness::LivenessCheck;
pub use stream::service_stream::ServiceStream;

/// Decodes the messages of one chunk as a consumer does. Only the fuzzer uses it.
///
/// # Errors
/// Data if they are not a chunk of the schema.
#[doc(hidden)]
pub fn decode_messages(
    messages: Vec<arrow_flight::FlightData>,
    schema: &std::sync::Arc<forebay_data::Schema>,
    with_ids: bool,
) -> forebay_core::Result<forebay_data::Chunk> {
    use crate::fetch::decode;
    use forebay_proto::{ChunkHead, Payload};
    let wire = forebay_data::Chunk::wire_schema(schema, with_ids, false);
    for message in &messages {
        let elsewhere: Vec<usize> = match ChunkHead::open(message)?.payload {
            Payload::Inline => continue,
            Payload::SharedMemory(lent) => lent.columns.iter().map(|c| c.column as usize).collect(),
            Payload::Trailing(columns) => columns.iter().map(|c| c.column as usize).collect(),
        };
        let rest = decode::rest(message.clone(), &elsewhere, &wire, schema)?;
        elsewhere.iter().try_for_each(|&column| decode::bytes_of(column, rest.num_rows(), schema).map(drop))?;
        return Ok(rest);
    }
    decode::chunk(messages, &wire, schema)
}
