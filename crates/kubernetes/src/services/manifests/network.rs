//! Network objects of a service: Services, the ConfigMap with a trainer's settings, and NetworkPolicies.

use serde_json::{Value, json};

use super::manifest::{
    CONFIG_MAPS, ClusterInfo, DISPATCHER_METRICS, DISPATCHER_PORT, Manifest, Owner, SERVICES, WORKER_METRICS,
    WORKER_PORT, address,
};
use crate::cluster::objects::{POLICIES, operator_pods};

/// Returns these manifests.
pub(super) fn manifests(owner: &Owner<'_>, cluster: &ClusterInfo) -> Vec<Manifest> {
    let mut manifests = vec![service(owner), headless(owner), settings(owner)];
    if owner.spec.network.as_ref().and_then(|network| network.policy).unwrap_or(true) {
        let operator = operator_pods(&cluster.operator);
        manifests.push(policy(owner, "dispatcher", (DISPATCHER_PORT, DISPATCHER_METRICS), Some(operator)));
        manifests.push(policy(owner, "worker", (WORKER_PORT, WORKER_METRICS), None));
    }
    manifests
}

/// Host name in the service's certificates.
pub(super) fn tls_name(owner: &Owner<'_>) -> String {
    let named = owner.spec.tls.as_ref().and_then(|tls| tls.name.clone());
    named.unwrap_or_else(|| format!("{}.{}.svc", owner.name, owner.namespace))
}

fn ports() -> Value {
    json!([
        {"name": "forebay", "port": DISPATCHER_PORT, "targetPort": "forebay", "protocol": "TCP"},
        {"name": "metrics", "port": DISPATCHER_METRICS, "targetPort": "metrics", "protocol": "TCP"},
    ])
}

/// The Service for trainers and workers. A dispatcher that does not lead redirects them to the leader.
fn service(owner: &Owner<'_>) -> Manifest {
    let reachable = owner.spec.service.clone().unwrap_or_default();
    let spec = json!({
        "type": reachable.type_.as_deref().unwrap_or("ClusterIP"), "ports": ports(),
        "selector": owner.labels("dispatcher"),
    });
    let mut manifest = owner.manifest(SERVICES, owner.name.to_owned(), json!({"spec": spec}));
    for (name, value) in reachable.annotations {
        manifest.body["metadata"]["annotations"][name] = json!(value);
    }
    manifest
}

/// The headless Service, which gives each dispatcher a DNS name.
fn headless(owner: &Owner<'_>) -> Manifest {
    let spec = json!({
        "clusterIP": "None", "publishNotReadyAddresses": true, "ports": ports(), "selector": owner.labels("dispatcher"),
    });
    owner.manifest(SERVICES, format!("{}-dispatchers", owner.name), json!({"spec": spec}))
}

/// The ConfigMap with a trainer's environment: `envFrom: [{configMapRef: {name: SERVICE}}]`.
fn settings(owner: &Owner<'_>) -> Manifest {
    let mut data = json!({"FOREBAY_SERVICE": format!("forebay://{}", address(owner.name, owner.namespace))});
    if owner.spec.tls.is_some() {
        data["FOREBAY_TLS_NAME"] = json!(tls_name(owner));
    }
    owner.manifest(CONFIG_MAPS, owner.name.to_owned(), json!({"data": data}))
}

fn policy(owner: &Owner<'_>, role: &str, (port, metrics): (u16, u16), operator: Option<Value>) -> Manifest {
    let network = owner.spec.network.clone().unwrap_or_default();
    let own = json!({"podSelector": {}});
    let peers: Vec<Value> = [own.clone()].into_iter().chain(network.from).collect();
    let readers: Vec<Value> = [own].into_iter().chain(operator).chain(network.metrics_from).collect();
    let rule = |from: Vec<Value>, port: u16| json!({"from": from, "ports": [{"port": port, "protocol": "TCP"}]});
    let spec = json!({
        "podSelector": {"matchLabels": owner.labels(role)}, "policyTypes": ["Ingress"],
        "ingress": [rule(peers, port), rule(readers, metrics)],
    });
    owner.manifest(POLICIES, format!("{}-{role}", owner.name), json!({"spec": spec}))
}
