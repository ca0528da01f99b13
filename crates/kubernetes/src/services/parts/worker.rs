//! The workers of a service: a Deployment for each type.

use serde_json::json;

use super::part::{DEPLOYMENTS, Of, Part, Place, WORKER_METRICS, WORKER_PORT, WORKER_TYPE, address};
use super::pods::{Pod, TLS_FOLDER, TOKENS_FOLDER};
use crate::api::service::Worker;

/// Share of the workers that may be taken away at the same time: the others compute what those had.
const AWAY: &str = "25%";
/// Seconds that a new worker must live until an old one is ended for it.
const LIVES_SECONDS: u32 = 5;

/// Name of the Deployment of a worker type.
pub(crate) fn name(service: &str, worker: &str) -> String {
    format!("{service}-worker-{worker}")
}

/// Returns the budget of all workers.
pub(super) fn budget(of: &Of<'_>, place: &Place) -> Part {
    let spec = json!({"maxUnavailable": AWAY, "selector": {"matchLabels": of.labels("worker")}});
    of.part(place.budgets, format!("{}-worker", of.name), json!({"spec": spec}))
}

/// Returns the Deployment of a worker type, with the fewest replicas that there may be.
pub(super) fn deployment(of: &Of<'_>, worker: &Worker) -> Part {
    let mut labels = of.labels("worker");
    labels[WORKER_TYPE] = json!(worker.name);
    let pod = Pod {
        role: "worker",
        args: args(of, worker),
        ports: (WORKER_PORT, WORKER_METRICS),
        volumes: Vec::new(),
        mounts: Vec::new(),
        token: "worker.token",
        resources: worker.resources.as_ref(),
        node_selector: &worker.node_selector,
        tolerations: &worker.tolerations,
    };
    let spec = json!({
        "replicas": of.spec.bounds(worker).0, "minReadySeconds": LIVES_SECONDS,
        // A new worker is there before an old one leaves, and that one serves what it holds.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": AWAY}},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod.spec(of)},
    });
    of.part(DEPLOYMENTS, name(of.name, &worker.name), json!({"spec": spec}))
        .labelled(super::part::ROLE, "worker")
        .labelled(WORKER_TYPE, &worker.name)
}

fn args(of: &Of<'_>, worker: &Worker) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| args.extend([option.to_owned(), value]);
    add("--dispatcher", address(of.name, of.namespace));
    add("--listen", format!("0.0.0.0:{WORKER_PORT}"));
    add("--metrics", format!("0.0.0.0:{WORKER_METRICS}"));
    if let Some(threads) = worker.threads {
        add("--threads", threads.to_string());
    }
    if let Some(kind) = of.spec.kind(worker) {
        add("--kind", kind.to_owned());
    }
    if let Some(price) = worker.price {
        add("--price", price.to_string());
    }
    if of.spec.tokens.is_some() {
        add("--token-file", format!("{TOKENS_FOLDER}/worker.token"));
    }
    if let Some(tls) = &of.spec.tls {
        add("--tls-ca", format!("{TLS_FOLDER}/ca.crt"));
        add("--tls-cert", format!("{TLS_FOLDER}/tls.crt"));
        add("--tls-key", format!("{TLS_FOLDER}/tls.key"));
        add("--tls-name", super::reach::tls_name(of));
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
