//! What a dispatcher tells whoever scales workers elsewhere, as Prometheus reads it: Prometheus itself, and KEDA.
//!
//! On a port of its own, in the clear and for whoever reaches it, as etcd has one: three numbers, and nothing of any job. Nowhere
//! unless it is asked for. Invariants: a connection that does nothing, or does it slowly, is closed after
//! [`CONNECTION_MAX`]; there are at most [`CONNECTIONS_MAX`]; a request's head is bounded by hyper, its body is not read.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_dispatcher::{ScaleFigures, ScaleView};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const PATH: &str = "/metrics";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long a connection lasts at most; whoever reads metrics connects again.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// Connections at a time; more wait in the kernel.
const CONNECTIONS_MAX: usize = 32;
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);

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

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, view: ScaleView) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = room.clone().acquire_owned().await;
        let Ok((socket, _)) = listener.accept().await.inspect_err(|error| tracing::warn!(%error, "no metrics")) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let view = view.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, &view));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), answer);
            // What is wrong with a connection is for the one who made it.
            let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, view: &ScaleView) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.uri().path(), request.method()) {
        (PATH, &Method::GET | &Method::HEAD) => match view.figures().await {
            Ok(figures) => (StatusCode::OK, text(&figures)),
            // It waits to lead, and the one that does has the figures.
            Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message())),
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

/// The figures, in Prometheus' text format. What is not known is left out: whoever scales by it then leaves things as they are.
fn text(figures: &ScaleFigures) -> String {
    let ScaleFigures { wanted, workers, workers_max } = *figures;
    let gauges = [
        ("forebay_workers_wanted", "Workers that all jobs want together; absent while that is not known.", wanted),
        ("forebay_workers", "Workers that there are.", Some(workers)),
        ("forebay_workers_max", "The most workers that are ever wanted.", Some(workers_max)),
    ];
    let mut text = String::new();
    for (name, help, value) in gauges {
        if let Some(value) = value {
            // A string takes whatever is written.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out_and_the_rest_is_what_prometheus_reads() {
        let text = |wanted| text(&ScaleFigures { wanted, workers: 3, workers_max: 8 });
        let known = "# HELP forebay_workers Workers that there are.\n# TYPE forebay_workers gauge\nforebay_workers 3\n\
                     # HELP forebay_workers_max The most workers that are ever wanted.\n\
                     # TYPE forebay_workers_max gauge\nforebay_workers_max 8\n";
        assert_eq!(text(None), known);
        assert!(text(Some(2)).ends_with(known) && text(Some(2)).contains("\nforebay_workers_wanted 2\n"));
    }
}
