//! What dispatcher, workers and clients say to each other, and how they reach each other.
//!
//! The messages are those of `proto/forebay.proto`; the Rust code in `src/generated/` is written by the tool in
//! `codegen/` and committed, so that a build needs no compiler of .proto files.
//!
//! Invariants: an error crosses the wire whole ([`to_status`], [`to_error`]); every connection has the same settings
//! ([`Remote`], [`server`]), which suit chunks of tens of megabytes, and is a [`Wire`]: in the clear or over TLS. Not here: what
//! the messages mean.

mod address;
mod connect;
mod head;
mod key;
mod leader;
mod listen;
mod local;
mod metered;
mod ops;
mod remote;
mod scale;
mod secret;
mod status;
mod stream;
mod ticket;
mod tls;
mod transfer;
mod validity;
mod version;
mod wire;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, rustdoc::all)]
mod generated {
    include!("generated/forebay.v1.rs");
}

use forebay_plan::Ending as Ends;
use forebay_plan::Sharding;

pub use address::{Address, PORT};
pub use connect::{
    REQUEST_BYTES_MAX, TOO_FAST, attempt, client, innermost, may_pass, reach, server, service, unanswered,
};
pub use generated::dispatcher_client::DispatcherClient;
pub use generated::dispatcher_server::{Dispatcher, DispatcherServer};
pub use generated::*;
pub use head::{ApartColumn, ChunkHead, Large, Lent, LentColumn};
pub use key::JobKey;
pub use leader::{leader, not_leader};
pub use listen::{Accepted, GREETING_MAX, Incoming, NewReader, Place, reachable};
pub use local::{Return, is_same_user, receive_arena, send_arena};
pub use metered::{ThreadTime, metered};
pub use remote::{Credentials, Link, Remote, Token, bearer};
pub use secret::WorkerSecret;
pub use status::{to_error, to_json, to_status};
pub use stream::Stream;
pub use ticket::Ticket;
pub use tls::{ClientTls, ServerTls, Speaks, TlsFiles, carried};
pub use transfer::{
    Block, BlockPart, COMPUTING_EVERY, Frame, FrameHead, PARTS_MAX, PREFACE, ROWS_MAX, Reader, Request, broken,
    receive_column, send_column, tune,
};
pub use validity::Validity;
pub use version::check_version;
pub use wire::Wire;

/// The context of an error of the way to a worker, and not of a split: a consumer that says so is given splits of others.
pub const UNREACHED: &str = "unreached";

/// The context of an error of a job that the dispatcher was told by its number, and does not know.
pub const NO_JOB: &str = "unknown";

impl JobDefinition {
    /// Returns how the job's epochs are dealt to its readers.
    pub fn sharding(&self) -> Sharding {
        Sharding { consumers: self.consumers, even: self.even, coordinated: self.coordinated }
    }
}

impl OpenJobRequest {
    /// Returns how epochs are to be dealt.
    pub fn sharding(&self) -> Sharding {
        Sharding { consumers: self.consumers, even: self.even, coordinated: self.coordinated }
    }
}

impl From<Ends> for Ending {
    fn from(ends: Ends) -> Self {
        match ends {
            Ends::Apart => Self::Apart,
            Ends::Drop => Self::Drop,
            Ends::Pad => Self::Pad,
            Ends::Error => Self::Error,
        }
    }
}

impl From<Ending> for Ends {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Apart => Self::Apart,
            Ending::Drop => Self::Drop,
            Ending::Pad => Self::Pad,
            Ending::Error => Self::Error,
        }
    }
}

/// The most bytes of a blob in one message.
pub const BLOB_PART_BYTES_MAX: usize = 1 << 20;
