//! Encodings, conversions, keys and limits of messages, beside their protobuf fields.
//!
//! - `transfer`: the protocol by which workers send chunks
//! - `chunk_head`: the head of a chunk's message
//! - `chunk_spans`: when a worker computed a chunk, for a trace
//! - `shm`: the protocol by which a worker lends shared memory to consumers on its host
//! - `ticket`: names the split that a consumer reads
//! - `key`, `secret`: the key that opens a job, and the secret by which a worker proves its id
//! - `status`: errors over gRPC
//! - `version`: the check that both sides run the same version
//! - `sample_stream_key`: which jobs read the same samples
//! - `sharding`: conversions of sharding and endings
//! - `op_spent`: conversions of the counters of ops
//! - `scale`: the workers that a provisioner has to start

pub(crate) mod chunk_head;
pub(crate) mod chunk_spans;
pub(crate) mod key;
mod op_spent;
pub(crate) mod sample_stream_key;
mod scale;
pub(crate) mod secret;
mod sharding;
pub(crate) mod shm;
pub(crate) mod status;
pub(crate) mod ticket;
pub(crate) mod transfer;
pub(crate) mod version;
