//! Reads from a dispatcher's metrics how many workers it wants. Metrics need no token, so the operator reads no Secret.
//!
//! Only the leading dispatcher has the number. Bound: [`ANSWER_MAX`] for all dispatchers of a service.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::Value;

use super::manifests::DISPATCHER_METRICS;
use crate::cluster::objects::{is_terminating, text};
use crate::cluster::pod_metrics::{self, label, samples};

/// Timeout for the dispatchers of a service.
const ANSWER_MAX: Duration = Duration::from_secs(3);

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
    let mut answers: FuturesUnordered<_> =
        addresses.map(async |address| (address, pod_metrics::fetch(address, DISPATCHER_METRICS).await)).collect();
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

fn is_leader(text: &str) -> bool {
    counts(text, "forebay_dispatcher_leader").next().is_none_or(|(_, value)| value == 1)
}

fn read(text: &str) -> WantedWorkers {
    let of_kind = |(labels, value): (&str, u32)| {
        Some(((label(labels, "kind")?.to_owned(), label(labels, "spot")? == "true"), value))
    };
    WantedWorkers {
        all: counts(text, "forebay_workers_wanted").map(|(_, value)| value).next(),
        kinds: counts(text, "forebay_workers_wanted_by_kind").filter_map(of_kind).collect(),
    }
}

/// The samples of a metric with whole numbers of workers, of which there are at most a million.
fn counts<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, u32)> {
    samples(text, name).filter(|(_, value)| (0.0..=1e6).contains(value)).map(|(labels, value)| (labels, value as u32))
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
