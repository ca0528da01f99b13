//! Cache nodes of the engine `forebay`: a Deployment with a pod on each of `replicas` nodes. A pod mounts the claim, so
//! the CSI driver of its node reads all remote files into the node's tier, before a pod of a job runs. The pod serves
//! the progress of its mount as metrics. Pods of jobs prefer the nodes of these pods.
//!
//! The pods have no label of a cache's user, so they neither keep a cache nor delay its deletion.

use serde_json::{Value, json};

use super::{Child, EngineSettings};
use crate::api::cache_backend::Forebay;
use crate::cluster::Key;
use crate::cluster::objects::{DEPLOYMENTS, POLICIES, operator_pods};

/// Label of the pods: the name of the cache.
pub(crate) const CACHE_NODE: &str = "forebay.dev/cache-node";
/// Start of the names of Deployment and NetworkPolicy.
const NAME: &str = "forebay-cache-";
/// Port of the metrics.
pub(super) const METRICS: u16 = 7091;
/// Mount path in the pods.
const FOLDER: &str = "/data";
/// User and group of the pods: any id other than root's.
const USER: u32 = 65_532;

/// Returns the name of the cache to which a Deployment belongs.
pub(crate) fn cache_of(deployment: &str) -> &str {
    deployment.strip_prefix(NAME).unwrap_or(deployment)
}

/// Returns the Deployment and the NetworkPolicy of a cache; they are not wanted without cache nodes.
pub(super) fn children(cache: &Key, engine: &Forebay, replicas: u32, settings: &EngineSettings) -> Vec<Child> {
    let child = |kind, spec, kept, exact| Child {
        kind,
        namespace: Some(cache.namespace.clone()),
        name: format!("{NAME}{}", cache.name),
        spec,
        can_change: true,
        kept,
        exact,
        is_wanted: replicas > 0,
    };
    // A new image would move pods to nodes without the data.
    let image = Some("/template/spec/containers/0/image");
    let chosen: &[_] = &["/template/spec/nodeSelector", "/template/spec/tolerations"];
    vec![
        child(DEPLOYMENTS, deployment(&cache.name, engine, replicas, &settings.image), image, chosen),
        child(POLICIES, policy(&cache.name, &settings.operator_namespace), None, &[]),
    ]
}

fn deployment(cache: &str, engine: &Forebay, replicas: u32, image: &str) -> Value {
    let labels = json!({CACHE_NODE: cache});
    let each_other = json!([{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]);
    let container = json!({
        "name": "cache-node", "image": image, "command": ["forebay"],
        "args": ["mount", "--status", FOLDER, "--metrics", format!("0.0.0.0:{METRICS}")],
        "ports": [{"name": "metrics", "containerPort": METRICS, "protocol": "TCP"}],
        "volumeMounts": [
            {"name": "data", "mountPath": FOLDER, "readOnly": true, "mountPropagation": "HostToContainer"},
        ],
        "readinessProbe": {"httpGet": {"path": "/metrics", "port": "metrics"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
    });
    let pod = json!({
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": cache, "readOnly": true}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": each_other}},
        "terminationGracePeriodSeconds": 10,
        "enableServiceLinks": false,
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": engine.node_selector,
        "tolerations": engine.tolerations,
    });
    json!({
        "replicas": replicas, "selector": {"matchLabels": labels},
        // A node has at most one pod, so an old pod ends before a new one starts.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    })
}

/// Pods of the namespace and the operator may read the metrics, also where policies deny all connections.
fn policy(cache: &str, operator: &str) -> Value {
    let from = json!([{"podSelector": {}}, operator_pods(operator)]);
    json!({
        "podSelector": {"matchLabels": {CACHE_NODE: cache}}, "policyTypes": ["Ingress"],
        "ingress": [{"from": from, "ports": [{"port": METRICS, "protocol": "TCP"}]}],
    })
}
