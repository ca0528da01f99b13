//! Messages between dispatcher, workers and clients, and the connections between them.
//!
//! The messages are those of `proto/forebay.proto`; the Rust code in `src/generated/` is written by the tool in
//! `codegen/` and committed, so that a build needs no compiler of .proto files.
//!
//! | folder | contents |
//! |---|---|
//! | `messages/` | encodings, conversions, keys and limits beside the protobuf fields |
//! | `net/` | addresses, TLS, listening and connecting |
//! | `generated/` | the protobuf messages and gRPC services |
//!
//! Invariants: an error crosses the wire with all of its fields ([`to_status`], [`to_error`]); every connection has the
//! same settings ([`Remote`], [`server`]), which suit chunks of tens of megabytes, and is a [`Wire`]: in the clear or
//! over TLS. Not here: the handling of messages.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, clippy::unwrap_used, rustdoc::all)]
mod generated;
mod messages;
mod net;

pub use generated::dispatcher_client::DispatcherClient;
pub use generated::dispatcher_server::{Dispatcher, DispatcherServer};
pub use generated::*;
pub use messages::chunk_head::{ChunkHead, Lent, LentColumn, Payload, TrailingColumn};
pub use messages::chunk_spans::{spans_from_bytes, spans_to_bytes};
pub use messages::key::JobKey;
pub use messages::sample_stream_key::SampleStreamKey;
pub use messages::secret::WorkerSecret;
pub use messages::shm::{Return, is_same_user, receive_arena, send_arena};
pub use messages::status::{NO_JOB, UNREACHED, UNREADABLE, in_one_line, to_error, to_json, to_status};
pub use messages::ticket::Ticket;
pub use messages::transfer::{
    Block, BlockPart, COMPUTING_EVERY, ConsumerStream, Frame, FrameHead, PARTS_MAX, PREFACE, ROWS_MAX, Request, broken,
    receive_column, send_column, tune,
};
pub use messages::version::{PROTOCOL, PROTOCOL_OLDEST, UNNUMBERED_VERSION, check_version};
pub use net::address::{Address, PORT};
pub use net::connect::{TOO_FAST, attempt, client, innermost, may_pass, reach, unanswered};
pub use net::http2::{BLOB_PART_BYTES_MAX, REQUEST_BYTES_MAX, server, service};
pub use net::leader::{leader, not_leader};
pub use net::listen::{Accepted, GREETING_MAX, GreetingSlot, Incoming, TransferConnection, reachable};
pub use net::metered::{ThreadTime, metered};
pub use net::remote::{Credentials, Link, Remote, Token, bearer, with_token};
pub use net::tls::{ClientTls, Protocol, ServerTls, TlsFiles, carried};
pub use net::validity::Validity;
pub use net::wire::Wire;
