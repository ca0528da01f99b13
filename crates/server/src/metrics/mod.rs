//! The metrics of a process, for monitoring and for scalers elsewhere, in Prometheus' format.
//!
//! They are served on a port of their own, without encryption and without authentication, as etcd does: only figures,
//! and none of a single job. Without the option there is no such port. Invariants: labels are of fixed sets; a
//! connection that is idle or slow is closed after [`CONNECTION_MAX`], and when [`CONNECTIONS_MAX`] newer ones exist,
//! so that it delays no scrape; hyper bounds a request's head, its body is not read. `docs/operations.md` has a table
//! of all of them, which a test compares.

#![expect(clippy::disallowed_methods, reason = "a listener that fails is tried again after a pause")]

mod dispatcher;
mod mount;
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

pub use mount::{MountFigures, MountMetrics, MountView, PrefetchFigures};
pub(crate) use process::Birth;
use text::Exposition;

const PATH: &str = "/metrics";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The longest life of a connection; a scraper then connects again.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// Connections at a time; a further one closes the oldest.
const CONNECTIONS_MAX: usize = 32;
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time to collect the figures.
const FIGURES_MAX: Duration = Duration::from_secs(5);

/// The role of the process.
pub(crate) enum Role {
    Dispatcher(forebay_dispatcher::View),
    Worker(forebay_worker::View),
    Mount(MountView),
}

/// The source of the metrics.
pub(crate) struct Metrics {
    pub(crate) role: Role,
    /// When the own certificate expires, in seconds since 1970, if there is one.
    pub(crate) certificate_ends: Option<i64>,
    pub(crate) birth: Birth,
}

impl Metrics {
    async fn text(&self) -> String {
        let mut text = Exposition::default();
        text.gauge("forebay_build_info", "1, labelled with the version of the process.")
            .with(&[("version", forebay_core::VERSION)], 1);
        if let Some(ends) = self.certificate_ends {
            let help = "When the process's own certificate expires, in seconds since 1970.";
            text.gauge("forebay_certificate_expiry_timestamp_seconds", help).is(ends as f64);
        }
        match &self.role {
            Role::Dispatcher(view) => dispatcher::write(&mut text, &view.figures().await),
            Role::Worker(view) => worker::write(&mut text, &view.figures()),
            Role::Mount(view) => mount::write(&mut text, &view()),
        }
        self.birth.write(&mut text);
        text.into()
    }
}

/// Listens. Must be called within a runtime.
///
/// # Errors
/// Conflict when the port is taken; Invalid when it cannot be opened for another reason.
pub(crate) async fn bind(at: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(at).await.map_err(|e| {
        let taken = e.kind() == std::io::ErrorKind::AddrInUse;
        let kind = if taken { ErrorKind::Conflict } else { ErrorKind::Invalid };
        Error::new(kind, format!("cannot serve metrics at {at}: {e}")).hint("choose another --metrics")
    })
}

/// Serves until it is dropped; without a listener, waits for ever.
pub(crate) async fn serve(listener: Option<TcpListener>, metrics: Metrics) -> Infallible {
    let Some(listener) = listener else { return std::future::pending().await };
    let metrics = Arc::new(metrics);
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((socket, _)) = listener
            .accept()
            .await
            .inspect_err(|error| tracing::warn!(%error, "cannot accept a connection for metrics"))
        else {
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
            // The client sees the errors of its connection.
            let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
        }));
    }
}

async fn answer(request: Request<Incoming>, metrics: &Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.uri().path(), request.method()) {
        (PATH, &Method::GET | &Method::HEAD) => match tokio::time::timeout(FIGURES_MAX, metrics.text()).await {
            Ok(text) => (StatusCode::OK, text),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the figures are not available now\n".to_owned()),
        },
        (PATH, _) => (StatusCode::METHOD_NOT_ALLOWED, "use GET to read metrics\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, format!("the metrics are at {PATH}\n")),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(TEXT));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}
