//! Metrics of this process, in Prometheus' format. Labels have fixed sets of values, without namespaces and names.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use super::Key;

/// Buckets of the histogram of durations, in seconds.
const BOUNDS: [f64; 8] = [0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0];

/// The metrics of this process.
pub(crate) static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::default);

/// Durations of the reconciles of one controller.
#[derive(Clone, Default)]
struct Durations {
    /// Reconciles that took at most each of [`BOUNDS`].
    within: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

#[derive(Default)]
struct State {
    reconciles: BTreeMap<(&'static str, &'static str), u64>,
    durations: BTreeMap<&'static str, Durations>,
    queued: BTreeMap<&'static str, usize>,
    states: HashMap<(&'static str, Key), String>,
    requests: BTreeMap<(&'static str, &'static str), u64>,
    is_leader: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Metrics {
    state: Mutex<State>,
}

impl Metrics {
    /// Counts a reconcile by its outcome.
    pub(crate) fn reconciled(&self, what: &'static str, outcome: &'static str, took: Duration) {
        self.with(|state| {
            *state.reconciles.entry((what, outcome)).or_default() += 1;
            let durations = state.durations.entry(what).or_default();
            let seconds = took.as_secs_f64();
            for (within, bound) in durations.within.iter_mut().zip(BOUNDS) {
                *within += u64::from(seconds <= bound);
            }
            durations.count += 1;
            durations.seconds += seconds;
        });
    }

    /// Sets the length of a controller's work queue: queued and running keys.
    pub(crate) fn queue_length(&self, what: &'static str, keys: usize) {
        self.with(|state| state.queued.insert(what, keys));
    }

    /// Sets the state of an object; `None` removes a deleted object.
    pub(crate) fn set_state(&self, what: &'static str, key: &Key, value: Option<&str>) {
        self.with(|state| match value {
            Some(value) => _ = state.states.insert((what, key.clone()), value.to_owned()),
            None => _ = state.states.remove(&(what, key.clone())),
        });
    }

    /// Counts a request to the API.
    pub(crate) fn request(&self, verb: &'static str, outcome: &'static str) {
        self.with(|state| *state.requests.entry((verb, outcome)).or_default() += 1);
    }

    /// Records that this process is the leader.
    pub(crate) fn leading(&self) {
        self.with(|state| state.is_leader = true);
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self) -> String {
        self.with(|state| state.text())
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn text(&self) -> String {
        let mut text = String::new();
        let head = |text: &mut String, name: &str, type_: &str, help: &str| {
            // Writing into a String cannot fail.
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} {type_}").ok();
        };
        head(&mut text, "forebay_operator_leader", "gauge", "1 while this process is the leader.");
        writeln!(text, "forebay_operator_leader {}", u8::from(self.is_leader)).ok();
        let name = "forebay_operator_reconciles_total";
        head(
            &mut text,
            name,
            "counter",
            "Reconciles of objects: done, failed, conflict (the object changed meanwhile), refused (by the API).",
        );
        for ((what, outcome), count) in &self.reconciles {
            writeln!(text, "{name}{{what=\"{what}\",outcome=\"{outcome}\"}} {count}").ok();
        }
        let name = "forebay_operator_reconcile_seconds";
        head(&mut text, name, "histogram", "Durations of reconciles.");
        for (what, durations) in &self.durations {
            for (bound, within) in BOUNDS.iter().zip(durations.within) {
                writeln!(text, "{name}_bucket{{what=\"{what}\",le=\"{bound}\"}} {within}").ok();
            }
            let Durations { count, seconds, .. } = durations;
            writeln!(text, "{name}_bucket{{what=\"{what}\",le=\"+Inf\"}} {count}").ok();
            writeln!(text, "{name}_sum{{what=\"{what}\"}} {seconds}\n{name}_count{{what=\"{what}\"}} {count}").ok();
        }
        let name = "forebay_operator_queue";
        head(
            &mut text,
            name,
            "gauge",
            "Length of the work queue: objects that wait for a reconcile or a retry, or are being reconciled.",
        );
        for (what, keys) in &self.queued {
            writeln!(text, "{name}{{what=\"{what}\"}} {keys}").ok();
        }
        let name = "forebay_operator_requests_total";
        head(
            &mut text,
            name,
            "counter",
            "Requests to the API, without those of watches: ok, conflict, refused, silent.",
        );
        for ((verb, outcome), count) in &self.requests {
            writeln!(text, "{name}{{verb=\"{verb}\",outcome=\"{outcome}\"}} {count}").ok();
        }
        let name = "forebay_operator_objects";
        head(&mut text, name, "gauge", "Caches by state, and services by the reason in their status.");
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for ((what, _), is) in &self.states {
            *counts.entry((what, is)).or_default() += 1;
        }
        for ((what, is), count) in counts {
            writeln!(text, "{name}{{what=\"{what}\",state=\"{is}\"}} {count}").ok();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_count_and_deleted_objects_are_left_out() {
        let metrics = Metrics::default();
        metrics.reconciled("cache", "done", Duration::from_millis(50));
        metrics.reconciled("cache", "conflict", Duration::from_secs(3));
        metrics.request("PATCH", "ok");
        metrics.queue_length("cache", 4);
        for name in ["a", "b", "c"] {
            metrics.set_state("cache", &Key::new("ns", name), Some("PVCCreated"));
        }
        metrics.set_state("cache", &Key::new("ns", "b"), Some("CacheFailed"));
        metrics.set_state("cache", &Key::new("ns", "c"), None);
        let text = metrics.text();
        for line in [
            "forebay_operator_leader 0",
            "forebay_operator_reconciles_total{what=\"cache\",outcome=\"conflict\"} 1",
            "forebay_operator_reconcile_seconds_bucket{what=\"cache\",le=\"0.1\"} 1",
            "forebay_operator_reconcile_seconds_bucket{what=\"cache\",le=\"+Inf\"} 2",
            "forebay_operator_queue{what=\"cache\"} 4",
            "forebay_operator_requests_total{verb=\"PATCH\",outcome=\"ok\"} 1",
            "forebay_operator_objects{what=\"cache\",state=\"CacheFailed\"} 1",
            "forebay_operator_objects{what=\"cache\",state=\"PVCCreated\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
