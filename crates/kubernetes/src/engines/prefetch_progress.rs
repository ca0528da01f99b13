//! The progress of cache nodes: from the metrics of their pods to the figures and the condition of a cache. Pure.

use serde_json::Value;

use super::cache_nodes::CACHE_NODE;
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
    /// uid of the pod.
    pub(crate) pod: String,
    /// Name of the node.
    pub(crate) node: String,
    /// Its last answer; `None` before the first.
    pub(crate) mount: Option<Mount>,
    /// Whether the pod, or its mount, does not answer now.
    pub(crate) is_silent: bool,
}

/// The progress of one mount.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mount {
    /// It reads nothing ahead: it has no remote source, or its volume says so.
    WithoutPrefetch,
    /// It reads ahead.
    Prefetching(Prefetch),
}

/// The progress of one mount's prefetch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prefetch {
    state: String,
    bytes: f64,
    bytes_cached: f64,
    failed: f64,
    unlisted: f64,
}

impl Prefetch {
    /// The share of the data that is cached. 0 while the size of the data is not known.
    fn share(&self) -> f64 {
        match self.state.as_str() {
            "counting" => 0.0,
            _ if self.unlisted > 0.0 => 0.0,
            _ if self.bytes > 0.0 => (self.bytes_cached / self.bytes).min(1.0),
            state => f64::from(state == "done" && self.failed == 0.0),
        }
    }
}

impl CacheNode {
    fn share(&self) -> f64 {
        match &self.mount {
            None => 0.0,
            Some(Mount::WithoutPrefetch) => 1.0,
            Some(Mount::Prefetching(prefetch)) => prefetch.share(),
        }
    }

    fn prefetch(&self) -> Option<&Prefetch> {
        match &self.mount {
            Some(Mount::Prefetching(prefetch)) => Some(prefetch),
            _ => None,
        }
    }

    fn is_in(&self, state: &str) -> bool {
        self.prefetch().is_some_and(|prefetch| prefetch.state == state)
    }

    fn has_ended(&self) -> bool {
        self.mount == Some(Mount::WithoutPrefetch) || self.is_in("done")
    }

    /// Keeps the last answer of the same pod while it is silent, or while its mount, which has started again, counts and
    /// passes what its tier has.
    pub(super) fn after(self, last: &CacheNodes) -> Self {
        let Some(last) = last.running.iter().find(|last| last.pod == self.pod) else { return self };
        let starts_again = (self.is_in("counting") || self.is_in("reading")) && self.share() < last.share();
        let mount = if self.mount.is_none() || starts_again { last.mount.clone() } else { self.mount };
        Self { mount, ..self }
    }
}

/// Reads the metrics of a pod; `None` if its mount does not answer.
pub(super) fn read(metrics: &str) -> Option<Mount> {
    let value = |name: &str| samples(metrics, name).next().map(|(_, value)| value);
    if value("forebay_mount_up") != Some(1.0) {
        return None;
    }
    let mut states = samples(metrics, "forebay_mount_prefetch_state").filter(|(_, value)| *value == 1.0);
    let Some((labels, _)) = states.next() else { return Some(Mount::WithoutPrefetch) };
    Some(Mount::Prefetching(Prefetch {
        state: label(labels, "state")?.to_owned(),
        bytes: value("forebay_mount_prefetch_bytes")?,
        bytes_cached: value("forebay_mount_prefetch_bytes_cached")?,
        failed: value("forebay_mount_prefetch_failed")?,
        unlisted: value("forebay_mount_prefetch_unlisted")?,
    }))
}

/// Returns why a pod does not run, as Kubernetes says: its scheduling, or the state of its container.
pub(super) fn cause(pod: &Value) -> Option<String> {
    let unscheduled = condition_of(pod, "PodScheduled", "False");
    let waiting = || {
        let state = items(pod, "/status/containerStatuses").first()?.pointer("/state/waiting")?;
        Some(format!("{} {}", text(state, "/reason"), text(state, "/message")).trim().to_owned())
    };
    unscheduled.or_else(waiting).filter(|cause| !cause.is_empty())
}

/// Returns the message of a condition that has this status.
fn condition_of(object: &Value, type_: &str, status: &str) -> Option<String> {
    let is = |c: &&Value| text(c, "/type") == type_ && text(c, "/status") == status;
    items(object, "/status/conditions").iter().find(is).map(|c| text(c, "/message").to_owned())
}

/// Whether the pod runs, and is to stay.
pub(super) fn is_running(pod: &Value) -> bool {
    !is_terminating(pod) && text(pod, "/status/phase") == "Running"
}

/// Returns the progress of a cache that wants `replicas` cache nodes, from its observed children and pods.
///
/// Each node caches all data, so the percentage is the mean of the shares of `replicas` nodes. A node that is missing, or
/// has never answered, has cached nothing.
pub(super) fn progress(cache: &str, replicas: u32, children: &[Value], nodes: &CacheNodes) -> Progress {
    let of_kind = |kind: &str| children.iter().find(|child| text(child, "/kind") == kind);
    let refused = of_kind("Deployment").and_then(|deployment| condition_of(deployment, "ReplicaFailure", "True"));
    let prefetches =
        of_kind("PersistentVolume").is_none_or(|volume| text(volume, "/spec/csi/volumeAttributes/prefetch") == "true");
    let mut best: Vec<&CacheNode> = nodes.running.iter().collect();
    // While a lower number of replicas is being applied, there are more pods.
    best.sort_by(|a, b| b.share().total_cmp(&a.share()));
    best.truncate(replicas as usize);
    let condition = match prefetches {
        true => condition(cache, replicas, &best, nodes.missing.clone().or(refused)),
        false => CachedCondition {
            is_true: false,
            reason: "NoPrefetch",
            message: "the volume was made without cache nodes: delete the cache and create it again".to_owned(),
            changes: false,
        },
    };
    let share = if prefetches { best.iter().map(|node| node.share()).sum::<f64>() / f64::from(replicas) } else { 0.0 };
    let prefetch = || best.iter().filter_map(|node| node.prefetch());
    let size = prefetch().filter(|prefetch| prefetch.state != "counting").map(|prefetch| prefetch.bytes);
    let size = size.reduce(f64::max);
    Progress {
        cached: size.map(|_| binary(prefetch().map(|prefetch| prefetch.bytes_cached).sum())),
        // Rounded down, so that 100.0% is all of it.
        cached_percentage: Some(format!("{:.1}%", (share * 1000.0).floor() / 10.0)),
        total: size.map(binary),
        condition: Some(condition),
        ..Progress::default()
    }
}

/// `nodes` are at most `replicas` running nodes; `cause` says why there are not more.
fn condition(cache: &str, replicas: u32, nodes: &[&CacheNode], cause: Option<String>) -> CachedCondition {
    let unfinished = |reason, message, changes| CachedCondition { is_true: false, reason, message, changes };
    let running = nodes.len();
    if running < replicas as usize {
        let look = || format!("kubectl describe pod -l {CACHE_NODE}={cache}");
        let cause = cause.unwrap_or_else(look);
        return unfinished("NodesMissing", format!("{running} of {replicas} cache nodes run: {cause}"), true);
    }
    if let Some(silent) = nodes.iter().find(|node| node.is_silent) {
        let message = format!("the cache node {} does not say how much it has cached", silent.node);
        return unfinished("NodeSilent", message, true);
    }
    if let Some(full) = nodes.iter().find(|node| node.is_in("full")) {
        let message = format!("the tier of node {} is full: the cache needs a larger quota for all data", full.node);
        return unfinished("TierFull", message, false);
    }
    let done = nodes.iter().filter(|node| node.has_ended()).count();
    if done < running {
        return unfinished("Prefetching", format!("{done} of {replicas} cache nodes have all data"), true);
    }
    let failed = |node: &&&CacheNode| node.prefetch().is_some_and(|prefetch| prefetch.failed > 0.0);
    if let Some(node) = nodes.iter().find(failed) {
        let Prefetch { failed, unlisted, .. } = node.prefetch().cloned().unwrap_or_default();
        let message = format!(
            "node {} could not read {} files and could not list {unlisted} folders: the log of its driver, forebay-csi, \
             names the first 10",
            node.node,
            failed - unlisted
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

    fn node(name: &str, state: &str, cached: f64, failed: f64, unlisted: f64) -> CacheNode {
        let text = format!(
            "forebay_mount_up 1\nforebay_mount_prefetch_state{{state=\"other\"}} 0\n\
             forebay_mount_prefetch_state{{state=\"{state}\"}} 1\nforebay_mount_prefetch_bytes 1048576\n\
             forebay_mount_prefetch_bytes_cached {cached}\nforebay_mount_prefetch_failed {failed}\n\
             forebay_mount_prefetch_unlisted {unlisted}\n"
        );
        CacheNode { pod: name.to_owned(), node: name.to_owned(), mount: read(&text), is_silent: false }
    }

    fn of(replicas: u32, running: &[CacheNode]) -> (String, &'static str, String) {
        let missing = Some("0/3 nodes are available".to_owned());
        let progress = progress("c", replicas, &[], &CacheNodes { running: running.to_vec(), missing });
        let condition = progress.condition.expect("there");
        assert_eq!(condition.is_true, condition.reason == "Complete");
        (progress.cached_percentage.expect("known"), condition.reason, condition.message)
    }

    const ALL: f64 = 1_048_576.0;

    #[test]
    fn the_percentage_is_of_all_wanted_nodes_and_the_reason_says_what_is_missing() {
        let half = |name| node(name, "reading", ALL / 2.0, 0.0, 0.0);
        let all = |name| node(name, "done", ALL, 0.0, 0.0);
        let percent = str::to_owned;
        assert_eq!(of(1, &[half("a")]), (percent("50.0%"), "Prefetching", percent("0 of 1 cache nodes have all data")));
        assert_eq!(of(2, &[half("a"), all("b")]).0, percent("75.0%"));
        let (share, reason, message) = of(2, &[all("b")]);
        assert_eq!((share, reason), (percent("50.0%"), "NodesMissing"));
        assert_eq!(message, "1 of 2 cache nodes run: 0/3 nodes are available");
        assert_eq!(of(2, &[all("a"), all("b")]).1, "Complete");
        // Fewer replicas are wanted than pods run still.
        assert_eq!(of(2, &[half("a"), half("b"), half("c"), half("d")]).0, percent("50.0%"));
        assert_eq!(of(1, &[half("a"), all("b")]).1, "Complete");
        assert_eq!(of(1, &[node("a", "counting", 0.0, 0.0, 0.0)]).0, percent("0.0%"));
        let full = of(1, &[node("a", "full", ALL - 1.0, 0.0, 0.0)]);
        assert_eq!((full.0, full.1), (percent("99.9%"), "TierFull"));
        let failed = of(1, &[node("a", "done", ALL / 2.0, 3.0, 0.0)]);
        assert!(failed.1 == "FilesFailed" && failed.2.contains("3 files"), "{failed:?}");
        // How much is in a folder that cannot be listed is not known, so nothing opens a gate.
        let unlisted = of(1, &[node("a", "done", ALL, 1.0, 1.0)]);
        assert_eq!((unlisted.0, unlisted.1), (percent("0.0%"), "FilesFailed"));
    }

    #[test]
    fn a_node_keeps_its_figures_while_it_is_silent_or_starts_again() {
        let last = CacheNodes { running: vec![node("a", "done", ALL, 0.0, 0.0)], missing: None };
        let silent =
            || CacheNode { mount: read("forebay_mount_up 0\n"), is_silent: true, ..node("a", "done", 0.0, 0.0, 0.0) };
        let kept = of(1, &[silent().after(&last)]);
        assert_eq!((kept.0.as_str(), kept.1), ("100.0%", "NodeSilent"));
        assert_eq!(of(1, &[silent().after(&CacheNodes::default())]).0, "0.0%");
        for state in ["counting", "reading"] {
            assert_eq!(of(1, &[node("a", state, 0.0, 0.0, 0.0).after(&last)]).0, "100.0%");
            assert_eq!(of(1, &[node("b", state, 0.0, 0.0, 0.0).after(&last)]).0, "0.0%", "another pod");
        }
        assert_eq!(of(1, &[node("a", "full", ALL / 4.0, 0.0, 0.0).after(&last)]).0, "25.0%");
    }

    #[test]
    fn sources_that_are_local_need_no_prefetch_and_a_volume_made_without_one_has_none() {
        let local = CacheNode { mount: read("forebay_mount_up 1\n"), ..node("a", "done", 0.0, 0.0, 0.0) };
        assert_eq!(
            (of(1, std::slice::from_ref(&local)).0.as_str(), of(1, std::slice::from_ref(&local)).1),
            ("100.0%", "Complete")
        );
        let volume = json!({"kind": "PersistentVolume", "spec": {"csi": {"volumeAttributes": {}}}});
        let progress = progress("c", 1, &[volume], &CacheNodes { running: vec![local], missing: None });
        assert_eq!(progress.cached_percentage.as_deref(), Some("0.0%"));
        assert_eq!(progress.condition.map(|condition| condition.reason), Some("NoPrefetch"));
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
        let denied = json!({"kind": "Deployment", "status": {"conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
        ]}});
        let condition = progress("c", 1, &[denied], &CacheNodes::default()).condition.expect("there");
        assert_eq!(condition.message, "0 of 1 cache nodes run: exceeded quota");
        let condition = progress("c", 1, &[], &CacheNodes::default()).condition.expect("there");
        assert!(condition.message.ends_with("kubectl describe pod -l forebay.dev/cache-node=c"), "{condition:?}");
        assert_eq!((binary(1_825_361_101.0), binary(0.0)), ("1.70GiB".to_owned(), "0B".to_owned()));
    }
}
