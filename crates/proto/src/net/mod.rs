//! Connections between dispatcher, workers and clients: addresses, TLS, listening and connecting.
//!
//! - `address`: `host:port`, as users write it
//! - `http2`: the settings that all gRPC clients and servers share; `connect`: connecting, with retries
//! - `remote`: a server and the credentials for it
//! - `leader`: errors that name the dispatcher's leader
//! - `listen/`: a listener that tells gRPC, TLS and the chunk protocol apart
//! - `wire`: one connection, in the clear or over TLS
//! - `tls`: certificates and keys, and their errors
//! - `validity`: the period in which a certificate is valid
//! - `metered`: the processor time of a future

pub(crate) mod address;
pub(crate) mod connect;
pub(crate) mod http2;
pub(crate) mod leader;
pub(crate) mod listen;
pub(crate) mod metered;
pub(crate) mod remote;
pub(crate) mod tls;
pub(crate) mod validity;
pub(crate) mod wire;
