//! Changes a pod that uses a cache. Pure, and idempotent.
//!
//! The webhook adds the claim's volume, with a read-only mount in every container and init container; the variables
//! `KUBEDL_CACHE_NAME` and `FOREBAY_CACHE_NAME`; the label by which the operator finds the pod; an affinity for nodes
//! that store the data; and a scheduling gate, or an init container that waits on clusters without gates.

use serde_json::{Value, json};

use crate::caches::uses::{CACHE, GATE, USER, WAITER};
use crate::cluster::objects::{items, text};
use crate::engines::PreferredNodes;

/// Name of the volume, as in KubeDL.
const VOLUME: &str = "cachevolume";
/// Name of the volume if the pod has another volume of that name.
const OTHER_VOLUME: &str = "forebay-cache";
/// The downwardAPI volume with the pod's annotations.
const STATE_VOLUME: &str = "forebay-cache-state";
const STATE_FOLDER: &str = "/forebay";
/// Weight of the affinity, from 1 to 100.
const PREFERENCE: u32 = 100;
const NAMES: [&str; 2] = ["KUBEDL_CACHE_NAME", "FOREBAY_CACHE_NAME"];

/// How a pod waits for its cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Waiter {
    /// By a scheduling gate.
    Gate,
    /// In an init container of this image.
    Container(String),
}

/// The changes to a pod.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    pub(crate) cache: String,
    pub(crate) mount_path: String,
    pub(crate) nodes: Option<PreferredNodes>,
    pub(crate) waiter: Waiter,
    /// The workload that declared the cache, as JSON; `None` if the pod did.
    pub(crate) user: Option<String>,
}

/// Returns the changed pod.
///
/// # Errors
/// A sentence for the pod's author if a container has another volume at the mount path.
pub(crate) fn inject(pod: &Value, with: &Injection) -> Result<Value, String> {
    let mut pod = pod.clone();
    pod["metadata"]["labels"][CACHE] = json!(with.cache);
    if let Some(user) = &with.user {
        pod["metadata"]["annotations"][USER] = json!(user);
    }
    let volume = volume(&mut pod, &with.cache);
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            if text(container, "/name") != WAITER {
                mount(container, &volume, with)?;
                name(container, &with.cache);
            }
        }
    }
    match &with.nodes {
        Some(PreferredNodes::WithLabel(label)) => prefer_nodes(&mut pod, label),
        Some(PreferredNodes::WithPods(label, value)) => prefer_nodes_of_pods(&mut pod, label, value),
        None => {}
    }
    match &with.waiter {
        // The API rejects gates of a pod with a node.
        Waiter::Gate if text(&pod, "/spec/nodeName").is_empty() => {
            if !items(&pod, "/spec/schedulingGates").iter().any(|gate| text(gate, "/name") == GATE) {
                push(&mut pod["spec"]["schedulingGates"], json!({"name": GATE}));
            }
        }
        Waiter::Gate => {}
        Waiter::Container(image) => wait_in_container(&mut pod, image),
    }
    Ok(without_nulls(pod))
}

/// Returns the name of the pod's volume for the cache; adds the volume if it is absent.
fn volume(pod: &mut Value, cache: &str) -> String {
    let volumes = items(pod, "/spec/volumes");
    let of_cache = volumes.iter().find(|v| text(v, "/persistentVolumeClaim/claimName") == cache);
    if let Some(there) = of_cache {
        return text(there, "/name").to_owned();
    }
    let is_taken = volumes.iter().any(|v| text(v, "/name") == VOLUME);
    let name = if is_taken { OTHER_VOLUME } else { VOLUME };
    let claim = json!({"name": name, "persistentVolumeClaim": {"claimName": cache, "readOnly": true}});
    push(&mut pod["spec"]["volumes"], claim);
    name.to_owned()
}

fn mount(container: &mut Value, volume: &str, with: &Injection) -> Result<(), String> {
    let path = with.mount_path.trim_end_matches('/');
    let who = text(container, "/name").to_owned();
    let mut is_mounted = false;
    for mount in container["volumeMounts"].as_array_mut().into_iter().flatten() {
        if text(mount, "/name") == volume {
            mount["readOnly"] = json!(true);
            follow(mount);
            is_mounted = true;
        } else if text(mount, "/mountPath").trim_end_matches('/') == path {
            let other = text(mount, "/name");
            return Err(format!(
                "container {who} has volume {other} at {path}, where cache {} is to be: change one of the two",
                with.cache
            ));
        }
    }
    if !is_mounted {
        let mut mount = json!({"name": volume, "mountPath": path, "readOnly": true});
        follow(&mut mount);
        push(&mut container["volumeMounts"], mount);
    }
    Ok(())
}

/// Sets the mount propagation, so that a running container sees the mount after the node's driver restores it.
fn follow(mount: &mut Value) {
    if mount["mountPropagation"].is_null() {
        mount["mountPropagation"] = json!("HostToContainer");
    }
}

fn name(container: &mut Value, cache: &str) {
    for name in NAMES {
        if !items(container, "/env").iter().any(|e| text(e, "/name") == name) {
            push(&mut container["env"], json!({"name": name, "value": cache}));
        }
    }
}

fn prefer_nodes(pod: &mut Value, label: &str) {
    let at = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let is_there = |p: &Value| items(p, "/preference/matchExpressions").iter().any(|e| text(e, "/key") == label);
    if !items(pod, at).iter().any(is_there) {
        let holds = json!({"key": label, "operator": "Exists"});
        let preference = json!({"weight": PREFERENCE, "preference": {"matchExpressions": [holds]}});
        push(
            &mut pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
            preference,
        );
    }
}

fn prefer_nodes_of_pods(pod: &mut Value, label: &str, value: &str) {
    let near = json!({
        "labelSelector": {"matchLabels": {label: value}}, "topologyKey": "kubernetes.io/hostname",
    });
    let at = "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    if !items(pod, at).iter().any(|p| p["podAffinityTerm"] == near) {
        push(
            &mut pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
            json!({"weight": PREFERENCE, "podAffinityTerm": near}),
        );
    }
}

fn wait_in_container(pod: &mut Value, image: &str) {
    if items(pod, "/spec/initContainers").iter().any(|c| text(c, "/name") == WAITER) {
        return;
    }
    let waiter = json!({
        "name": WAITER, "image": image,
        "command": ["forebay-operator", "wait", "--file", format!("{STATE_FOLDER}/annotations")],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": STATE_VOLUME, "mountPath": STATE_FOLDER, "readOnly": true}],
    });
    let field = json!({"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}});
    push(&mut pod["spec"]["volumes"], json!({"name": STATE_VOLUME, "downwardAPI": {"items": [field]}}));
    match pod["spec"]["initContainers"].as_array_mut() {
        Some(containers) => containers.insert(0, waiter),
        None => pod["spec"]["initContainers"] = json!([waiter]),
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

/// Removes nulls. Mutable indexing of JSON inserts null for an absent field, and the API rejects some nulls.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::cache_nodes::CACHE_NODE;

    fn with(waiter: Waiter) -> Injection {
        let nodes = Some(match waiter {
            Waiter::Gate => PreferredNodes::WithLabel("fluid.io/s-ml-mnist".to_owned()),
            Waiter::Container(_) => PreferredNodes::WithPods(CACHE_NODE, "mnist".to_owned()),
        });
        Injection { cache: "mnist".to_owned(), mount_path: "/data".to_owned(), nodes, waiter, user: None }
    }

    #[test]
    fn injection_is_idempotent_and_keeps_the_fields_of_the_pod() {
        let plain = json!({"metadata": {"name": "p"}, "spec": {
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a", "env": [{"name": "KUBEDL_CACHE_NAME", "value": "own"}]}, {"name": "b"}],
        }});
        for waiter in [Waiter::Gate, Waiter::Container("image".to_owned())] {
            let once = inject(&plain, &with(waiter.clone())).expect("it is injected");
            assert_eq!(inject(&once, &with(waiter.clone())).as_ref(), Ok(&once));
            assert_eq!(once.pointer("/spec/containers/0/env/0/value"), Some(&json!("own")));
            for container in items(&once, "/spec/containers") {
                assert_eq!(
                    container["volumeMounts"],
                    json!([{
                        "name": "cachevolume", "mountPath": "/data", "readOnly": true,
                        "mountPropagation": "HostToContainer",
                    }])
                );
            }
            let waits = text(&once, "/spec/initContainers/0/name") == WAITER;
            assert_eq!(waits, waiter != Waiter::Gate);
            assert_eq!(once.pointer("/spec/schedulingGates").is_some(), waiter == Waiter::Gate);
            let affinity = if waiter == Waiter::Gate { "nodeAffinity" } else { "podAffinity" };
            assert_eq!(once["spec"]["affinity"].as_object().map(|all| all.keys().eq([affinity])), Some(true));
        }
    }

    #[test]
    fn a_mount_of_kubedl_becomes_read_only_and_another_volume_at_the_path_is_rejected() {
        let claim = json!({"name": "cachevolume", "persistentVolumeClaim": {"claimName": "mnist"}});
        let mut pod = json!({"metadata": {}, "spec": {
            "volumes": [claim],
            "containers": [{"name": "a", "volumeMounts": [{"name": "cachevolume", "mountPath": "/data"}]}],
        }});
        let done = inject(&pod, &with(Waiter::Gate)).expect("it is injected");
        assert_eq!(done.pointer("/spec/volumes").map(|v| v.as_array().map(Vec::len)), Some(Some(1)));
        assert_eq!(done.pointer("/spec/containers/0/volumeMounts/0/readOnly"), Some(&json!(true)));
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "other", "mountPath": "/data/"}]);
        let error = inject(&pod, &with(Waiter::Gate)).expect_err("it is taken");
        assert!(error.contains("container a has volume other at /data"), "{error}");
    }
}
