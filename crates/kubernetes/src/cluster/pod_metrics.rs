//! Reads the metrics of a pod: text in Prometheus' format, over HTTP without TLS.
//!
//! Bound: [`TEXT_MAX`] for one text. A caller sets its own timeout.

use std::net::{IpAddr, SocketAddr};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Largest text of metrics.
const TEXT_MAX: usize = 4 << 20;

/// Returns the metrics of the pod at this address.
///
/// # Errors
/// A message about the connection or the answer.
pub(crate) async fn fetch(address: IpAddr, port: u16) -> Result<String, String> {
    let at = SocketAddr::new(address, port);
    let message = |error: &dyn std::error::Error| forebay_proto::innermost(error);
    let socket = TcpStream::connect(at).await.map_err(|e| message(&e))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(|e| message(&e))?;
    let request = Request::get("/metrics").header("host", at.to_string()).body(Empty::<Bytes>::new());
    let request = request.map_err(|e| message(&e))?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|e| message(&e))?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), TEXT_MAX).collect().await.map_err(|e| message(&*e))?;
        String::from_utf8(body.to_bytes().to_vec()).map_err(|e| message(&e))
    };
    // A failed connection also fails the request, so the connection's own result is ignored.
    let open = async {
        connection.await.ok();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => answer,
        () = open => Err("the connection ended".to_owned()),
    }
}

/// Returns the samples of a metric: labels and value. Samples that are not finite are left out.
pub(crate) fn samples<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        let value: f64 = value.trim().parse().ok()?;
        value.is_finite().then_some((labels, value))
    })
}

/// Returns the value of a label.
pub(crate) fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}
