//! The way to a service: Services, what trainers set, and who may connect.

use serde_json::{Value, json};

use super::part::{
    CONFIG_MAPS, DISPATCHER_METRICS, DISPATCHER_PORT, Of, POLICIES, Part, Place, SERVICES, WORKER_METRICS, WORKER_PORT,
    address,
};

/// Returns all of it.
pub(super) fn parts(of: &Of<'_>, place: &Place) -> Vec<Part> {
    let mut parts = vec![service(of), headless(of), settings(of)];
    if of.spec.network.as_ref().and_then(|network| network.policy).unwrap_or(true) {
        let operator = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.operator}},
            "podSelector": {"matchLabels": {"app": "forebay-operator"}},
        });
        parts.push(policy(of, "dispatcher", (DISPATCHER_PORT, DISPATCHER_METRICS), Some(operator)));
        parts.push(policy(of, "worker", (WORKER_PORT, WORKER_METRICS), None));
    }
    parts
}

/// Name that certificates carry.
pub(super) fn tls_name(of: &Of<'_>) -> String {
    let named = of.spec.tls.as_ref().and_then(|tls| tls.name.clone());
    named.unwrap_or_else(|| format!("{}.{}.svc", of.name, of.namespace))
}

fn ports() -> Value {
    json!([
        {"name": "forebay", "port": DISPATCHER_PORT, "targetPort": "forebay", "protocol": "TCP"},
        {"name": "metrics", "port": DISPATCHER_METRICS, "targetPort": "metrics", "protocol": "TCP"},
    ])
}

/// The Service of trainers and workers: a dispatcher that does not lead sends them to the one that does.
fn service(of: &Of<'_>) -> Part {
    let reachable = of.spec.service.clone().unwrap_or_default();
    let spec = json!({
        "type": reachable.type_.as_deref().unwrap_or("ClusterIP"), "ports": ports(),
        "selector": of.labels("dispatcher"),
    });
    let mut part = of.part(SERVICES, of.name.to_owned(), json!({"spec": spec}));
    for (name, value) in reachable.annotations {
        part.body["metadata"]["annotations"][name] = json!(value);
    }
    part
}

/// The Service that gives each dispatcher a name of its own.
fn headless(of: &Of<'_>) -> Part {
    let spec = json!({
        "clusterIP": "None", "publishNotReadyAddresses": true, "ports": ports(), "selector": of.labels("dispatcher"),
    });
    of.part(SERVICES, format!("{}-dispatchers", of.name), json!({"spec": spec}))
}

/// What a trainer sets: `envFrom: [{configMapRef: {name: SERVICE}}]`.
fn settings(of: &Of<'_>) -> Part {
    let mut data = json!({"FOREBAY_SERVICE": format!("forebay://{}", address(of.name, of.namespace))});
    if of.spec.tls.is_some() {
        data["FOREBAY_TLS_NAME"] = json!(tls_name(of));
    }
    of.part(CONFIG_MAPS, of.name.to_owned(), json!({"data": data}))
}

fn policy(of: &Of<'_>, role: &str, (port, metrics): (u16, u16), operator: Option<Value>) -> Part {
    let network = of.spec.network.clone().unwrap_or_default();
    let own = json!({"podSelector": {}});
    let peers: Vec<Value> = [own.clone()].into_iter().chain(network.from).collect();
    let readers: Vec<Value> = [own].into_iter().chain(operator).chain(network.metrics_from).collect();
    let rule = |from: Vec<Value>, port: u16| json!({"from": from, "ports": [{"port": port, "protocol": "TCP"}]});
    let spec = json!({
        "podSelector": {"matchLabels": of.labels(role)}, "policyTypes": ["Ingress"],
        "ingress": [rule(peers, port), rule(readers, metrics)],
    });
    of.part(POLICIES, format!("{}-{role}", of.name), json!({"spec": spec}))
}
