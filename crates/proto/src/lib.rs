//! What dispatcher, workers and clients say to each other, and how they reach each other.
//!
//! The messages are those of `proto/forebay.proto`; the Rust code in `src/generated/` is written by the tool in
//! `codegen/` and committed, so that a build needs no compiler of .proto files.
//!
//! Invariants: an error crosses the wire whole ([`to_status`], [`to_error`]); every connection has the same settings
//! ([`attempt`], [`server`]), which suit chunks of tens of megabytes. Not here: what the messages mean.

mod address;
mod connect;
mod head;
mod leader;
mod listen;
mod local;
mod status;
mod ticket;
mod transfer;
mod version;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, rustdoc::all)]
mod generated {
    include!("generated/forebay.v1.rs");
}

pub use address::{Address, PORT, addresses};
pub use connect::{REQUEST_BYTES_MAX, attempt, client, innermost, reach, server, service, unanswered};
pub use generated::dispatcher_client::DispatcherClient;
pub use generated::dispatcher_server::{Dispatcher, DispatcherServer};
pub use generated::*;
pub use head::{ApartColumn, ChunkHead, Large, Lent, LentColumn};
pub use leader::{leader, not_leader};
pub use listen::{Accepted, Incoming, reachable};
pub use local::{Return, is_same_user, receive_arena, send_arena};
pub use status::{to_error, to_json, to_status};
pub use ticket::Ticket;
pub use transfer::{
    COMPUTING_EVERY, Frame, FrameHead, PREFACE, Reader, Request, broken, receive_column, send_column, tune,
};
pub use version::check_version;

/// The context of an error of the way to a worker, and not of a split: a consumer that says so is given splits of others.
pub const UNREACHED: &str = "unreached";

/// The most bytes of a blob in one message.
pub const BLOB_PART_BYTES_MAX: usize = 1 << 20;
