//! The progress of cache nodes: from the metrics of their pods to the figures and the condition of a cache. Pure.

use serde_json::Value;

use super::{CachedCondition, Progress};
use crate::cluster::objects::{is_terminating, items, text};
use crate::cluster::pod_metrics::{label, samples};

/// The observed pods of a cache's nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CacheNodes {
    /// One entry for each running pod.
    pub(crate) running: Vec<CacheNode>,
    /// Why a further pod does not run, as Kubernetes says.
    pub(crate) missing: Option<String>,
}

/// A running pod, and the progress of its mount.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CacheNode {
    /// Name of the node.
    pub(crate) node: String,
    /// `None` if the pod does not answer, or its mount does not.
    pub(crate) prefetch: Option<Prefetch>,
}

/// The progress of one mount's prefetch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prefetch {
    state: String,
    bytes: f64,
    bytes_cached: f64,
    failed: f64,
}

/// Reads the metrics of a pod; `None` without a prefetch.
pub(super) fn read(metrics: &str) -> Option<Prefetch> {
    let mut states = samples(metrics, "forebay_mount_prefetch_state").filter(|(_, value)| *value == 1.0);
    let value = |name: &str| samples(metrics, name).next().map(|(_, value)| value);
    Some(Prefetch {
        state: label(states.next()?.0, "state")?.to_owned(),
        bytes: value("forebay_mount_prefetch_bytes")?,
        bytes_cached: value("forebay_mount_prefetch_bytes_cached")?,
        failed: value("forebay_mount_prefetch_failed")?,
    })
}

/// Returns why a pod does not run, as Kubernetes says: its scheduling, or the state of its container.
pub(super) fn cause(pod: &Value) -> Option<String> {
    let unscheduled = items(pod, "/status/conditions")
        .iter()
        .find(|c| text(c, "/type") == "PodScheduled" && text(c, "/status") == "False")
        .map(|c| text(c, "/message").to_owned());
    let waiting = || {
        let state = items(pod, "/status/containerStatuses").first()?.pointer("/state/waiting")?;
        Some(format!("{} {}", text(state, "/reason"), text(state, "/message")).trim().to_owned())
    };
    unscheduled.or_else(waiting).filter(|cause| !cause.is_empty())
}

/// Whether the pod runs, and is to stay.
pub(super) fn is_running(pod: &Value) -> bool {
    !is_terminating(pod) && text(pod, "/status/phase") == "Running"
}

/// Returns the progress of a cache that wants `replicas` cache nodes.
///
/// Each node caches all data, so all of it is `replicas` times the bytes of the sources. Without the answer of a running
/// pod, the figures are absent, and those of the last status stay.
pub(super) fn progress(replicas: u32, nodes: &CacheNodes) -> Progress {
    let known: Vec<_> = nodes.running.iter().filter_map(|node| Some((node, node.prefetch.as_ref()?))).collect();
    let mut progress = Progress { condition: Some(condition(replicas, nodes, &known)), ..Progress::default() };
    if known.len() < nodes.running.len() {
        progress.keeps_figures = true;
        return progress;
    }
    let counted = known.iter().filter(|(_, prefetch)| prefetch.state != "counting");
    let size = counted.map(|(_, prefetch)| prefetch.bytes).reduce(f64::max);
    let Some(size) = size else {
        progress.cached_percentage = Some("0.0%".to_owned());
        return progress;
    };
    let cached: f64 = known.iter().map(|(_, prefetch)| prefetch.bytes_cached).sum();
    let done = known.iter().filter(|(_, prefetch)| prefetch.state == "done").count();
    let share = match size > 0.0 {
        true => cached / (size * f64::from(replicas)),
        false => done as f64 / f64::from(replicas),
    };
    // Rounded down, so that 100.0% is all of it.
    progress.cached_percentage = Some(format!("{:.1}%", (share.min(1.0) * 1000.0).floor() / 10.0));
    (progress.cached, progress.total) = (Some(binary(cached)), Some(binary(size)));
    progress
}

fn condition(replicas: u32, nodes: &CacheNodes, known: &[(&CacheNode, &Prefetch)]) -> CachedCondition {
    let unfinished = |reason, message, changes| CachedCondition { is_true: false, reason, message, changes };
    let running = nodes.running.len();
    if running < replicas as usize {
        let cause = nodes.missing.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
        return unfinished("NodesMissing", format!("{running} of {replicas} cache nodes run{cause}"), true);
    }
    if let Some(silent) = nodes.running.iter().find(|node| node.prefetch.is_none()) {
        let message = format!("the cache node {} does not say how much it has cached", silent.node);
        return unfinished("NodeSilent", message, true);
    }
    if let Some((node, _)) = known.iter().find(|(_, prefetch)| prefetch.state == "full") {
        let message = format!("the tier of node {} is full: the cache needs a larger quota for all data", node.node);
        return unfinished("TierFull", message, false);
    }
    let done = known.iter().filter(|(_, prefetch)| prefetch.state == "done").count();
    if done < known.len() {
        return unfinished("Prefetching", format!("{done} of {replicas} cache nodes have all data"), true);
    }
    if let Some((node, prefetch)) = known.iter().find(|(_, prefetch)| prefetch.failed > 0.0) {
        let message = format!(
            "node {} could not read {} files: the log of its driver, forebay-csi, names the first 10",
            node.node, prefetch.failed
        );
        return unfinished("FilesFailed", message, false);
    }
    let message = format!("{replicas} cache nodes have all data");
    CachedCondition { is_true: true, reason: "Complete", message, changes: false }
}

/// A number of bytes, as Fluid writes it: 1.70GiB.
fn binary(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0}B") } else { format!("{value:.2}{}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, state: &str, cached: f64, failed: f64) -> CacheNode {
        let text = format!(
            "forebay_mount_up 1\nforebay_mount_prefetch_state{{state=\"counting\"}} {}\n\
             forebay_mount_prefetch_state{{state=\"{state}\"}} 1\nforebay_mount_prefetch_bytes 1048576\n\
             forebay_mount_prefetch_bytes_cached {cached}\nforebay_mount_prefetch_failed {failed}\n",
            u8::from(state == "counting")
        );
        CacheNode { node: name.to_owned(), prefetch: read(&text) }
    }

    fn of(replicas: u32, running: &[CacheNode]) -> (Option<String>, &'static str, String) {
        let missing = Some("0/3 nodes are available".to_owned());
        let progress = progress(replicas, &CacheNodes { running: running.to_vec(), missing });
        let condition = progress.condition.expect("there");
        assert_eq!(condition.is_true, condition.reason == "Complete");
        (progress.cached_percentage, condition.reason, condition.message)
    }

    #[test]
    fn the_percentage_is_of_all_wanted_nodes_and_the_reason_says_what_is_missing() {
        let half = || node("a", "reading", 524_288.0, 0.0);
        let all = |name| node(name, "done", 1_048_576.0, 0.0);
        let percent = |percent: &str| Some(percent.to_owned());
        assert_eq!(of(1, &[half()]), (percent("50.0%"), "Prefetching", "0 of 1 cache nodes have all data".to_owned()));
        assert_eq!(of(2, &[half(), all("b")]).0, percent("75.0%"));
        let (share, reason, message) = of(2, &[all("b")]);
        assert_eq!((share, reason), (percent("50.0%"), "NodesMissing"));
        assert_eq!(message, "1 of 2 cache nodes run: 0/3 nodes are available");
        assert_eq!(of(2, &[all("a"), all("b")]).1, "Complete");
        assert_eq!(of(1, &[node("a", "counting", 0.0, 0.0)]).0, percent("0.0%"));
        let full = of(1, &[node("a", "full", 1_048_575.0, 0.0)]);
        assert_eq!((full.0, full.1), (percent("99.9%"), "TierFull"));
        let failed = of(1, &[node("a", "done", 1_000_000.0, 2.0)]);
        assert!(failed.1 == "FilesFailed" && failed.2.contains("2 files"), "{failed:?}");
        let silent = CacheNode { node: "c".to_owned(), prefetch: read("forebay_mount_up 0\n") };
        let silent = progress(1, &CacheNodes { running: vec![silent], missing: None });
        assert!(silent.keeps_figures && silent.condition.is_some_and(|condition| condition.reason == "NodeSilent"));
    }

    #[test]
    fn nodes_without_remote_files_have_all_data_when_they_are_done() {
        let empty = |state: &str| CacheNode {
            node: "a".to_owned(),
            prefetch: Some(Prefetch { state: state.to_owned(), ..Prefetch::default() }),
        };
        assert_eq!(of(2, &[empty("done"), empty("reading")]).0.as_deref(), Some("50.0%"));
        assert_eq!(of(2, &[empty("done"), empty("done")]).0.as_deref(), Some("100.0%"));
        assert_eq!(of(2, &[]).0.as_deref(), Some("0.0%"));
    }

    #[test]
    fn a_pod_that_does_not_run_has_a_cause() {
        let unscheduled = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
        ]}});
        assert_eq!(cause(&unscheduled).as_deref(), Some("0/3 nodes are available"));
        let waiting = json!({"status": {"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
        ]}});
        assert_eq!(cause(&waiting).as_deref(), Some("ImagePullBackOff no such image"));
        assert!(!is_running(&waiting) && cause(&json!({})).is_none());
        assert_eq!(binary(1_825_361_101.0), "1.70GiB");
        assert_eq!(binary(0.0), "0B");
    }
}
