//! Manifests of the workers: a Deployment for each worker type.

use serde_json::json;

use super::manifest::{ClusterInfo, Manifest, Owner, WORKER_METRICS, WORKER_PORT, WORKER_TYPE, address};
use super::pod_spec::{Pod, TLS_FOLDER, TOKENS_FOLDER};
use crate::api::service::Worker;
use crate::cluster::objects::DEPLOYMENTS;

/// Share of the workers that may be unavailable at once: the others compute their splits.
const AWAY: &str = "25%";
/// minReadySeconds: the rollout ends an old worker when its replacement has been ready for this time.
const LIVES_SECONDS: u32 = 5;

/// Name of the Deployment of a worker type.
pub(crate) fn name(service: &str, worker: &str) -> String {
    format!("{service}-worker-{worker}")
}

/// Returns the disruption budget of all workers.
pub(super) fn budget(owner: &Owner<'_>, cluster: &ClusterInfo) -> Manifest {
    let spec = json!({"maxUnavailable": AWAY, "selector": {"matchLabels": owner.labels("worker")}});
    owner.manifest(cluster.budgets, format!("{}-worker", owner.name), json!({"spec": spec}))
}

/// Returns the Deployment of a worker type, with the minimum of its replicas.
pub(super) fn deployment(owner: &Owner<'_>, worker: &Worker) -> Manifest {
    let mut labels = owner.labels("worker");
    labels[WORKER_TYPE] = json!(worker.name);
    let pod = Pod {
        role: "worker",
        args: args(owner, worker),
        ports: (WORKER_PORT, WORKER_METRICS),
        volumes: Vec::new(),
        mounts: Vec::new(),
        token: "worker.token",
        resources: worker.resources.as_ref(),
        node_selector: &worker.node_selector,
        tolerations: &worker.tolerations,
    };
    let spec = json!({
        "replicas": owner.spec.bounds(worker).0, "minReadySeconds": LIVES_SECONDS,
        // A new worker is ready before an old one terminates, which first serves its buffered chunks.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": AWAY}},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod.spec(owner)},
    });
    owner
        .manifest(DEPLOYMENTS, name(owner.name, &worker.name), json!({"spec": spec}))
        .labelled(super::manifest::ROLE, "worker")
        .labelled(WORKER_TYPE, &worker.name)
}

fn args(owner: &Owner<'_>, worker: &Worker) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| args.extend([option.to_owned(), value]);
    add("--dispatcher", address(owner.name, owner.namespace));
    add("--listen", format!("0.0.0.0:{WORKER_PORT}"));
    add("--metrics", format!("0.0.0.0:{WORKER_METRICS}"));
    if let Some(threads) = worker.threads {
        add("--threads", threads.to_string());
    }
    if let Some(kind) = owner.spec.kind(worker) {
        add("--kind", kind.to_owned());
    }
    if let Some(price) = worker.price {
        add("--price", price.to_string());
    }
    if owner.spec.tokens.is_some() {
        add("--token-file", format!("{TOKENS_FOLDER}/worker.token"));
    }
    if let Some(tls) = &owner.spec.tls {
        add("--tls-ca", format!("{TLS_FOLDER}/ca.crt"));
        add("--tls-cert", format!("{TLS_FOLDER}/tls.crt"));
        add("--tls-key", format!("{TLS_FOLDER}/tls.key"));
        add("--tls-name", super::network::tls_name(owner));
        if tls.client_certificates {
            add("--tls-client-ca", format!("{TLS_FOLDER}/ca.crt"));
        }
    }
    if worker.spot {
        args.push("--spot".to_owned());
    }
    args.extend(worker.args.iter().cloned());
    args
}
