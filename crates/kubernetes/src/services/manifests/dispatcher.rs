//! Manifests of the dispatchers: one dispatcher with a claim, or several over etcd.

use serde_json::{Value, json};

use super::manifest::{
    BUDGETS, ClusterInfo, DISPATCHER_METRICS, DISPATCHER_PORT, Manifest, Owner, STATEFUL_SETS, dispatcher_name,
};
use super::pod_spec::{Pod, TLS_FOLDER, TOKENS_FOLDER};
use crate::api::service::Autoscale;
use crate::cluster::objects::CLAIMS;

/// Default size of the claim.
const SIZE: &str = "10Gi";
const STATE_FOLDER: &str = "/state";

/// Returns the claim of the state; `None` if the spec names a claim or uses etcd.
pub(super) fn claim(owner: &Owner<'_>) -> Option<Manifest> {
    let volume = owner.spec.dispatcher.volume.as_ref().filter(|volume| volume.claim_name.is_none())?;
    let size = volume.size.as_deref().unwrap_or(SIZE);
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    if let Some(class) = &volume.storage_class_name {
        spec["storageClassName"] = json!(class);
    }
    Some(owner.manifest(CLAIMS, dispatcher_name(owner.name), json!({"spec": spec})))
}

/// Returns the disruption budget of the dispatchers: one may be unavailable.
pub(super) fn budget(owner: &Owner<'_>, cluster: &ClusterInfo) -> Manifest {
    debug_assert_eq!(cluster.budgets.kind, BUDGETS.kind);
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": owner.labels("dispatcher")}});
    owner.manifest(cluster.budgets, dispatcher_name(owner.name), json!({"spec": spec}))
}

/// Returns the StatefulSet of the dispatchers.
pub(super) fn stateful_set(owner: &Owner<'_>) -> Manifest {
    let (dispatcher, labels) = (&owner.spec.dispatcher, owner.labels("dispatcher"));
    let state = match &dispatcher.volume {
        Some(volume) => {
            let claim = volume.claim_name.clone().unwrap_or_else(|| dispatcher_name(owner.name));
            json!({"name": "state", "persistentVolumeClaim": {"claimName": claim}})
        }
        None => json!({"name": "state", "emptyDir": {}}),
    };
    let pod = Pod {
        role: "dispatcher",
        args: args(owner),
        ports: (DISPATCHER_PORT, DISPATCHER_METRICS),
        volumes: vec![state],
        mounts: vec![json!({"name": "state", "mountPath": STATE_FOLDER})],
        token: "tokens.json",
        resources: dispatcher.resources.as_ref(),
        node_selector: &dispatcher.node_selector,
        tolerations: &dispatcher.tolerations,
    };
    let spec = json!({
        "replicas": owner.spec.dispatchers(), "serviceName": format!("{}-dispatchers", owner.name),
        "podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod.spec(owner)},
    });
    owner
        .manifest(STATEFUL_SETS, dispatcher_name(owner.name), json!({"spec": spec}))
        .labelled(super::manifest::ROLE, "dispatcher")
}

fn args(owner: &Owner<'_>) -> Vec<String> {
    let spec = owner.spec;
    let mut args: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| args.extend([option.to_owned(), value]);
    add("--listen", format!("0.0.0.0:{DISPATCHER_PORT}"));
    add("--metrics", format!("0.0.0.0:{DISPATCHER_METRICS}"));
    add("--state-dir", STATE_FOLDER.to_owned());
    let most: u32 = spec.workers.iter().map(|worker| spec.bounds(worker).1).fold(0, u32::saturating_add);
    add("--max-workers", most.to_string());
    if let Some(etcd) = &spec.dispatcher.etcd {
        let own = format!("forebay-{}-{}", owner.namespace, owner.name);
        let prefix = etcd.prefix.as_deref().unwrap_or(&own);
        add("--store", format!("etcd://{}/{prefix}", etcd.endpoints.join(",")));
        let host = format!("$(POD_NAME).{}-dispatchers.{}.svc", owner.name, owner.namespace);
        add("--advertise", format!("{host}:{DISPATCHER_PORT}"));
    }
    if spec.has_offers() {
        offers(owner).into_iter().for_each(|offer| add("--offer", offer));
    }
    let Autoscale { objective, trainer_price } = spec.autoscale.clone().unwrap_or_default();
    if let Some(objective) = objective {
        add("--objective", objective);
    }
    // The dispatcher and the validation reject prices without an objective that has a cost.
    if let Some(price) = trainer_price {
        add("--trainer-price", price.to_string());
        let of_worker = spec.workers.first().and_then(|worker| worker.price).unwrap_or_default();
        add("--worker-price", of_worker.to_string());
    }
    if spec.tokens.is_some() {
        add("--tokens", format!("{TOKENS_FOLDER}/tokens.json"));
    }
    if let Some(tls) = &spec.tls {
        add("--tls-cert", format!("{TLS_FOLDER}/tls.crt"));
        add("--tls-key", format!("{TLS_FOLDER}/tls.key"));
        if tls.client_certificates {
            add("--tls-client-ca", format!("{TLS_FOLDER}/ca.crt"));
        }
    }
    args.extend(spec.dispatcher.args.iter().cloned());
    args
}

fn offers(owner: &Owner<'_>) -> Vec<String> {
    let offer = |worker| {
        let (kind, (_, max)) = (owner.spec.kind(worker).unwrap_or_default(), owner.spec.bounds(worker));
        let (price, threads) = (worker.price.unwrap_or_default(), worker.threads.unwrap_or(1));
        let spot = if worker.spot { ",spot" } else { "" };
        format!("kind={kind},price={price},threads={threads},max={max}{spot}")
    };
    owner.spec.workers.iter().map(offer).collect()
}

/// Whether all pods of a workload are ready, with the current spec.
pub(crate) fn is_rolled_out(workload: &Value) -> bool {
    let number = |at: &str| workload.pointer(at).and_then(Value::as_u64).unwrap_or(0);
    let replicas = workload.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    number("/status/observedGeneration") >= number("/metadata/generation")
        && number("/status/updatedReplicas") >= replicas
        && number("/status/readyReplicas") >= replicas
}
