//! One set of HTTP/2 settings for every process.
//!
//! Chunks are tens of megabytes, so flow control windows are wide enough that a stream does not stop within one.
//! Clients accept responses of any size: the server bounds them where it makes them (split sizes, blob parts). Servers
//! bound requests: memory for a message is allocated when its length is read, and anyone can connect and send a length.

use std::time::Duration;

use forebay_core::{Error, Result};
use tonic::transport::{Endpoint, Server};

use crate::net::address::Address;
use crate::{Dispatcher, DispatcherServer};

/// The flow control window of a stream.
const STREAM_WINDOW_BYTES: u32 = 32 << 20;
/// The flow control window of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 20;
/// Large frames: fewer headers and wake-ups for a large message.
const FRAME_BYTES: u32 = 1 << 20;
/// The most bytes of a blob in one message.
pub const BLOB_PART_BYTES_MAX: usize = 1 << 20;
/// The default bound of a request to a dispatcher. The largest requests are pipelines that name a million files.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
/// The flow control windows of a server's stream and connection: no request is both large and urgent.
const RECEIVED_STREAM_BYTES: u32 = 2 << 20;
const RECEIVED_CONNECTION_BYTES: u32 = 8 << 20;
/// Errors travel in headers, and carry tracebacks.
const HEADER_BYTES_MAX: u32 = 1 << 20;
/// A lost peer machine is detected after the sum of these two; a lost process, at once.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit to make a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// Returns the settings for connecting to an address. [`Remote`](crate::Remote) makes its connections.
pub(crate) fn endpoint(address: &Address, over_tls: bool) -> Result<Endpoint> {
    let scheme = if over_tls { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(|e| Error::invalid(format!("{address} is no address: {e}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_max_header_list_size(HEADER_BYTES_MAX))
}

/// Returns the settings of a server. The listener sets TCP_NODELAY.
pub fn server() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(RECEIVED_STREAM_BYTES)
        .initial_connection_window_size(RECEIVED_CONNECTION_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
}

/// Returns the dispatcher's service: requests of up to `request_bytes_max` bytes, responses of any size.
pub fn service<D: Dispatcher>(dispatcher: D, request_bytes_max: usize) -> DispatcherServer<D> {
    DispatcherServer::new(dispatcher).max_decoding_message_size(request_bytes_max).max_encoding_message_size(usize::MAX)
}
