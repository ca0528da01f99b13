//! What a process tells those who watch it, and who scale workers elsewhere, as Prometheus reads it.
//!
//! On a port of its own, in the clear and for whoever reaches it, as etcd has one: figures, and nothing of any one job. Nowhere unless
//! it is asked for. Invariants: labels are of fixed sets; a connection that does nothing, or does it slowly, is closed after
//! [`CONNECTION_MAX`], and when [`CONNECTIONS_MAX`] others are there, so that it holds no scrape up; a request's head is bounded by
//! hyper, its body is not read. `docs/operations.md` has a table of all of them, which a test compares.

#![expect(clippy::disallowed_methods, reason = "a listener that fails is tried again after a pause")]

mod dispatcher;
mod process;
mod text;
mod worker;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) use process::Birth;
use text::Exposition;

const PATH: &str = "/metrics";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long a connection lasts at most; whoever reads metrics connects again.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// Connections at a time; one more closes the one that has been there for longest.
const CONNECTIONS_MAX: usize = 32;
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the figures may take.
const FIGURES_MAX: Duration = Duration::from_secs(5);

/// Whose figures they are.
pub(crate) enum Role {
    Dispatcher(forebay_dispatcher::View),
    Worker(forebay_worker::View),
}

/// What is told.
pub(crate) struct Metrics {
    pub(crate) role: Role,
    /// When the own certificate ends, in seconds since 1970, where there is one.
    pub(crate) certificate_ends: Option<i64>,
    pub(crate) birth: Birth,
}

impl Metrics {
    async fn text(&self) -> String {
        let mut text = Exposition::default();
        text.gauge("forebay_build_info", "The version that runs.").with(&[("version", forebay_core::VERSION)], 1);
        if let Some(ends) = self.certificate_ends {
            let help = "When the own certificate ends, in seconds since 1970.";
            text.gauge("forebay_certificate_expiry_timestamp_seconds", help).is(ends as f64);
        }
        match &self.role {
            Role::Dispatcher(view) => dispatcher::write(&mut text, &view.figures().await),
            Role::Worker(view) => worker::write(&mut text, &view.figures()),
        }
        self.birth.write(&mut text);
        text.into()
    }
}

/// Listens. Must be called within a runtime.
///
/// # Errors
/// Conflict when the port is taken; Invalid when it cannot be had for another reason.
pub(crate) async fn bind(at: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(at).await.map_err(|e| {
        let taken = e.kind() == std::io::ErrorKind::AddrInUse;
        let kind = if taken { ErrorKind::Conflict } else { ErrorKind::Invalid };
        Error::new(kind, format!("cannot serve metrics at {at}: {e}")).hint("choose another --metrics")
    })
}

/// Serves until it is dropped; where there is no listener, does nothing for ever.
pub(crate) async fn serve(listener: Option<TcpListener>, metrics: Metrics) -> Infallible {
    let Some(listener) = listener else { return std::future::pending().await };
    let metrics = Arc::new(metrics);
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((socket, _)) = listener.accept().await.inspect_err(|error| tracing::warn!(%error, "no metrics")) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX {
            open.pop_front().into_iter().for_each(|oldest| oldest.abort());
        }
        let metrics = metrics.clone();
        open.push_back(tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, &metrics));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), answer);
            // What is wrong with a connection is for the one who made it.
            let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
        }));
    }
}

async fn answer(request: Request<Incoming>, metrics: &Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.uri().path(), request.method()) {
        (PATH, &Method::GET | &Method::HEAD) => match tokio::time::timeout(FIGURES_MAX, metrics.text()).await {
            Ok(text) => (StatusCode::OK, text),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the figures are not to be had now\n".to_owned()),
        },
        (PATH, _) => (StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, format!("what there is is at {PATH}\n")),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(TEXT));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}
