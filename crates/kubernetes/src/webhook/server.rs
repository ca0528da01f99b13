//! The webhook's HTTPS server: `/pods` answers the API server, `/healthz` the kubelet.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::admission::Admission;
use super::certificates::Identity;
use super::registration::PATH;

/// Connections at the same time; others wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// Largest request body. A review has the pod at most twice, and etcd limits an object to 1.5 MiB.
const REQUEST_MAX: usize = 8 << 20;
/// Timeout of the TLS handshake, and of the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed `accept`, as when the process has no free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Listens, and serves in a separate task.
///
/// # Errors
/// Unavailable when the server cannot listen at the address.
pub(super) async fn start(at: SocketAddr, identity: Arc<Identity>, admission: Arc<Admission>) -> Result<()> {
    let listener = TcpListener::bind(at).await;
    let listener = listener.map_err(|e| Error::unavailable(format!("the webhook cannot listen at {at}: {e}")))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|e| Error::invalid(format!("no TLS: {e}")))?;
    let config = config.with_no_client_auth().with_cert_resolver(identity);
    let (tls, room) = (TlsAcceptor::from(Arc::new(config)), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    tokio::spawn(async move {
        while let Ok(permit) = room.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((socket, _)) => drop(tokio::spawn(serve(socket, tls.clone(), admission.clone(), permit))),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    });
    Ok(())
}

async fn serve(socket: TcpStream, tls: TlsAcceptor, admission: Arc<Admission>, _room: OwnedSemaphorePermit) {
    let Ok(Ok(socket)) = tokio::time::timeout(HEAD_MAX, tls.accept(socket)).await else { return };
    let service = service_fn(move |request| {
        let admission = admission.clone();
        async move { Ok::<_, Infallible>(answer(&admission, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    if let Err(error) = server.serve_connection(TokioIo::new(socket), service).await {
        tracing::debug!(error = forebay_proto::innermost(&error), "a connection to the webhook broke");
    }
}

async fn answer(admission: &Admission, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    match request.uri().path() {
        "/healthz" => return plain(StatusCode::OK, "ok"),
        PATH => {}
        _ => return plain(StatusCode::NOT_FOUND, "not found"),
    }
    let Ok(body) = Limited::new(request.into_body(), REQUEST_MAX).collect().await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the question is too large, or broke off");
    };
    let Ok(review) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, "the question is no JSON");
    };
    let answer = admission.review(&review).await.to_string();
    let mut response = Response::new(Full::new(Bytes::from(answer)));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}
