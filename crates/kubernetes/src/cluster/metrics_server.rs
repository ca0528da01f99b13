//! `/metrics` for Prometheus: plain HTTP on its own port, on each replica.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::cluster::metrics::METRICS;

/// Connections at the same time; others wait to be accepted.
const CONNECTIONS_MAX: usize = 32;
/// Longest life of a connection; a scraper then reconnects.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// Pause after a failed `accept`, as when the process has no free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Listens, and serves in a separate task.
///
/// # Errors
/// Unavailable when the server cannot listen at the address.
pub(crate) async fn start(at: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(at).await;
    let listener = listener.map_err(|e| {
        Error::unavailable(format!("metrics cannot be served at {at}: {e}")).hint("choose another --metrics")
    })?;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::spawn(async move {
        while let Ok(permit) = room.clone().acquire_owned().await {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            tokio::spawn(async move {
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(CONNECTION_MAX);
                let connection = server.serve_connection(TokioIo::new(socket), service_fn(answer));
                // The client sees the errors of its own connection.
                let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
                drop(permit);
            });
        }
    });
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_known = request.uri().path() == "/metrics";
    let text = if is_known { METRICS.text() } else { "the metrics are at /metrics\n".to_owned() };
    let mut response = Response::new(Full::from(text));
    if is_known {
        response.headers_mut().insert("content-type", http::HeaderValue::from_static(TEXT));
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}
