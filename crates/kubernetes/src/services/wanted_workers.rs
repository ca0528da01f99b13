//! Reads from a dispatcher's metrics how many workers it wants. Metrics need no token, so the operator reads no Secret.
//!
//! Only the leading dispatcher has the number. Bounds: [`ANSWER_MAX`] for all dispatchers of a service, [`TEXT_MAX`]
//! for one.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::manifests::DISPATCHER_METRICS;
use crate::cluster::objects::{is_terminating, text};

/// Timeout for the dispatchers of a service.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Largest text of metrics.
const TEXT_MAX: usize = 4 << 20;

/// The numbers of workers that a dispatcher wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WantedWorkers {
    /// All workers, of a dispatcher without worker types.
    all: Option<u32>,
    /// Workers by kind, and by whether they are spot.
    kinds: HashMap<(String, bool), u32>,
}

impl WantedWorkers {
    /// Returns the wanted workers of a kind, or of all kinds; `None` if the dispatcher does not know.
    pub(crate) fn of(&self, kind: Option<(&str, bool)>) -> Option<u32> {
        match kind {
            Some((kind, spot)) => self.kinds.get(&(kind.to_owned(), spot)).copied(),
            None => self.all,
        }
    }
}

/// Reads the metrics of these dispatcher pods. The result is empty if no leading dispatcher answers.
pub(crate) async fn fetch(pods: &[Value]) -> WantedWorkers {
    let addresses =
        pods.iter().filter(|pod| !is_terminating(pod)).filter_map(|pod| text(pod, "/status/podIP").parse().ok());
    let mut answers: FuturesUnordered<_> = addresses.map(async |address| (address, metrics(address).await)).collect();
    let found = async {
        while let Some((address, answer)) = answers.next().await {
            match answer {
                Ok(text) if is_leader(&text) => return read(&text),
                Ok(_) => {}
                Err(error) => tracing::debug!(%address, error, "a dispatcher does not tell its metrics"),
            }
        }
        WantedWorkers::default()
    };
    tokio::time::timeout(ANSWER_MAX, found).await.unwrap_or_default()
}

async fn metrics(address: IpAddr) -> Result<String, String> {
    let at = SocketAddr::new(address, DISPATCHER_METRICS);
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

fn is_leader(text: &str) -> bool {
    samples(text, "forebay_dispatcher_leader").next().is_none_or(|(_, value)| value == 1)
}

fn read(text: &str) -> WantedWorkers {
    let of_kind = |(labels, value): (&str, u32)| {
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        Some(((label("kind")?, label("spot")? == "true"), value))
    };
    WantedWorkers {
        all: samples(text, "forebay_workers_wanted").map(|(_, value)| value).next(),
        kinds: samples(text, "forebay_workers_wanted_by_kind").filter_map(of_kind).collect(),
    }
}

/// The samples of a metric: labels, and the value as a whole number.
fn samples<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, u32)> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        let value: f64 = value.trim().parse().ok()?;
        // Numbers of workers are whole, and at most 100,000.
        (0.0..=1e6).contains(&value).then_some((labels, value as u32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leader_reports_wanted_workers() {
        let text = "# HELP forebay_workers_wanted x\nforebay_workers_wanted 3\nforebay_dispatcher_leader 1\n\
                    forebay_workers_wanted_by_kind{kind=\"c5.2xlarge\",spot=\"true\"} 2\n\
                    forebay_workers_wanted_by_kind{kind=\"c5.2xlarge\",spot=\"false\"} 0\n";
        let wants = read(text);
        assert_eq!(wants.of(None), Some(3));
        assert_eq!([true, false].map(|spot| wants.of(Some(("c5.2xlarge", spot)))), [Some(2), Some(0)]);
        assert_eq!(wants.of(Some(("other", false))), None);
        assert!(is_leader(text) && !is_leader("forebay_dispatcher_leader 0\n"));
        assert_eq!(read("forebay_workers 3\nforebay_workers_wanted NaN\n"), WantedWorkers::default());
    }
}
