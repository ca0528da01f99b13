//! The cause of pods that are not ready, from the workload's conditions, its pods, and its events.

use serde_json::Value;

/// Most pods, and most events, that are read.
const LISTED_MAX: usize = 500;

/// Namespace, kind and name of a workload.
pub(crate) struct WorkloadName<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

/// Returns the cause of a workload's pods that are not ready; `read` sends a GET request for a path.
pub(crate) async fn why(
    of: WorkloadName<'_>,
    workload: &Value,
    read: impl AsyncFn(String) -> Result<Value, String>,
) -> String {
    if let Some(refused) = refused(workload) {
        return refused;
    }
    let found = match read(pods(of.namespace, workload)).await.map(|pods| not_ready(&pods)) {
        Ok(None) => read(events(of.namespace, of.kind, of.name)).await.map(|events| not_created(&events)),
        found => found,
    };
    match found {
        Ok(Some(why)) => why,
        Ok(None) => "Kubernetes does not say".to_owned(),
        Err(error) => format!("why cannot be read: {error}"),
    }
}

/// Returns the message of a Deployment's condition ReplicaFailure, most often an exceeded quota.
pub(crate) fn refused(workload: &Value) -> Option<String> {
    let failure = conditions(workload).find(|c| is(c, "type", "ReplicaFailure") && is(c, "status", "True"))?;
    Some(text(failure, "message").unwrap_or("ReplicaFailure").to_owned())
}

/// Returns the path that lists a workload's pods.
fn pods(namespace: &str, workload: &Value) -> String {
    let labels = workload.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels: Vec<_> =
        labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect();
    format!("/api/v1/namespaces/{namespace}/pods?limit={LISTED_MAX}&labelSelector={}", escaped(&labels.join(",")))
}

/// Returns the path that lists the events of a workload whose pods could not be created.
fn events(namespace: &str, kind: &str, name: &str) -> String {
    let fields = format!("reason=FailedCreate,involvedObject.kind={kind},involvedObject.name={name}");
    format!("/api/v1/namespaces/{namespace}/events?limit={LISTED_MAX}&fieldSelector={}", escaped(&fields))
}

/// Returns the cause for the first pod that is not ready: no node, no image, or a container that exits.
fn not_ready(pods: &Value) -> Option<String> {
    let is_ready = |pod: &&Value| conditions(pod).any(|c| is(c, "type", "Ready") && is(c, "status", "True"));
    items(pods).filter(|pod| !is_ready(pod)).find_map(|pod| {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
        let homeless = conditions(pod).find(|c| is(c, "type", "PodScheduled") && is(c, "status", "False"));
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
        let why = homeless.or_else(|| statuses.filter_map(|s| s.pointer("/state/waiting")).next())?;
        let (reason, message) = (text(why, "reason").unwrap_or("waits"), text(why, "message").unwrap_or_default());
        Some(format!("pod {name}: {reason}: {message}").trim_end_matches(": ").to_owned())
    })
}

/// Returns the message of the latest event.
fn not_created(events: &Value) -> Option<String> {
    let last = items(events).max_by_key(|event| text(event, "lastTimestamp").unwrap_or_default())?;
    text(last, "message").map(str::to_owned)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.get("items").and_then(Value::as_array).into_iter().flatten().take(LISTED_MAX)
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

fn is(object: &Value, field: &str, value: &str) -> bool {
    text(object, field) == Some(value)
}

/// Percent-encodes a query parameter.
fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
