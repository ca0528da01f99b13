//! Connections: one set of HTTP/2 settings for every process, and connecting with patience that ends.
//!
//! Chunks are tens of megabytes, so windows are wide enough that a stream is not stopped within one. Message sizes
//! are not limited here: what is large is bounded where it is made (split sizes, blob parts).

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use tonic::transport::{Channel, Endpoint, Server};

use crate::address::Address;
use crate::{Dispatcher, DispatcherClient, DispatcherServer, GetVersionRequest, check_version, to_error};

/// What may be on its way on one stream.
const STREAM_WINDOW_BYTES: u32 = 32 << 20;
/// What may be on its way on one connection.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 20;
/// Large frames: fewer headers and wake-ups for a large message.
const FRAME_BYTES: u32 = 1 << 20;
/// Errors travel in headers, and carry tracebacks.
const HEADER_BYTES_MAX: u32 = 1 << 20;
/// A peer whose machine is gone is noticed after these two; one whose process is gone, at once.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// One attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LAST: Duration = Duration::from_millis(500);

/// Returns the settings to connect to `address` (`forebay://host:port` or `host:port`).
///
/// # Errors
/// Invalid when it is no address.
pub fn endpoint(address: &str) -> Result<Endpoint> {
    let address: Address = address.parse()?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|e| Error::invalid(format!("{address} is no address: {e}")))?;
    Ok(endpoint
        .tcp_nodelay(true)
        .connect_timeout(ATTEMPT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_max_header_list_size(HEADER_BYTES_MAX))
}

/// Returns the settings to serve with. TCP_NODELAY is set by the listener.
pub fn server() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
}

/// Returns the dispatcher's client over a channel, with messages of any size.
pub fn client(channel: Channel) -> DispatcherClient<Channel> {
    DispatcherClient::new(channel).max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX)
}

/// Returns the dispatcher's service, with messages of any size.
pub fn service<D: Dispatcher>(dispatcher: D) -> DispatcherServer<D> {
    DispatcherServer::new(dispatcher).max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX)
}

/// Connects to a dispatcher and checks that it answers with this version; tries again until `deadline` has passed.
///
/// # Errors
/// Invalid when it is no address; Version when it is another version; Unavailable when it did not answer in time.
///
/// # Cancel safety
/// Safe: a dropped attempt leaves nothing behind.
pub async fn connect(address: &str, deadline: Duration) -> Result<Channel> {
    let at: Address = address.parse()?;
    let endpoint = endpoint(address)?;
    let who = format!("the dispatcher at {at}");
    let attempt = async || {
        let channel = endpoint.connect().await.map_err(|e| Error::unavailable(innermost(&e)))?;
        // Connected is not yet answered: a stopped process has its connections accepted by the kernel.
        let answer = client(channel.clone()).get_version(GetVersionRequest {}).await;
        let answer = answer.map_err(|status| match status.code() {
            tonic::Code::Unavailable => to_error(&status, &at.to_string()),
            _ => Error::unavailable(status.message()),
        })?;
        check_version(&who, &answer.into_inner().version)?;
        Ok(channel)
    };
    retry(deadline, attempt).await.map_err(|e| match e.kind() {
        ErrorKind::Unavailable => {
            Error::unavailable(format!("dispatcher at {at} did not answer within {:.1} s", deadline.as_secs_f64()))
                .with("address", &at)
                .with("cause", e.get("cause").unwrap_or(e.message()))
                .hint("is `forebay dispatcher` (or `forebay up`) running there, and is the port open to this machine?")
        }
        _ => e,
    })
}

/// Connects to any other service, such as a worker's Flight; tries again until `deadline` has passed. `what` names it
/// ("worker").
///
/// # Errors
/// Invalid when it is no address; Unavailable when it could not be connected in time.
///
/// # Cancel safety
/// Safe: a dropped attempt leaves nothing behind.
pub async fn connect_within(what: &str, address: &str, deadline: Duration) -> Result<Channel> {
    let at: Address = address.parse()?;
    let endpoint = endpoint(address)?;
    let attempt = async || endpoint.connect().await.map_err(|e| Error::unavailable(innermost(&e)));
    retry(deadline, attempt).await.map_err(|e| {
        Error::unavailable(format!("{what} at {at} could not be reached within {:.1} s", deadline.as_secs_f64()))
            .with("address", &at)
            .with("cause", e.message())
    })
}

/// Tries until it works, until it fails in a way that trying again will not mend, or until the deadline has passed.
async fn retry<T>(deadline: Duration, attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
    let end = tokio::time::Instant::now() + deadline;
    let mut pause = PAUSE_FIRST;
    let mut last = Error::unavailable("no answer");
    loop {
        match tokio::time::timeout_at(end, attempt()).await {
            Ok(Err(e)) if e.kind() == ErrorKind::Unavailable => last = e,
            Ok(done) => return done,
            Err(_) => return Err(last),
        }
        if tokio::time::Instant::now() + pause >= end {
            return Err(last);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LAST);
    }
}

/// The reason that people can act on: "Connection refused", not "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn nobody_there_is_unavailable_and_says_where_and_what_to_do() {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let error = block_on(connect(&format!("forebay://{unused}"), Duration::from_millis(100))).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.message(), format!("dispatcher at {unused} did not answer within 0.1 s"));
        assert!(error.get("cause").is_some_and(|c| c.contains("refused")), "{error}");
        assert!(error.get("hint").is_some_and(|h| h.contains("forebay dispatcher")), "{error}");
    }

    #[test]
    fn a_process_that_listens_and_never_answers_is_given_up_in_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let start = std::time::Instant::now();
        let error = block_on(connect(&address, Duration::from_millis(200))).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(start.elapsed() < Duration::from_secs(2));
        let error = block_on(connect_within("worker", "127.0.0.1:1", Duration::from_millis(50))).expect_err("refused");
        assert!(error.message().starts_with("worker at 127.0.0.1:1 could not be reached"), "{error}");
    }
}
