//! Reconciles one ForebayService: applies the manifests, scales the workers, and writes the status.
//!
//! Order: first the objects that pods need, then the dispatchers. Existing workers get a changed spec after the rollout
//! of the dispatchers, so that one rollout ends before the next begins.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Context;
use super::apply::{Applied, apply, is_owned_by};
use super::manifests::{self, Manifest, STATEFUL_SETS, WORKER_TYPE, dispatcher_name, is_rolled_out};
use super::memory::Missing;
use super::status::{self, Dispatchers, Observation};
use super::wanted_workers::{self, WantedWorkers};
use crate::api::service::ForebayService;
use crate::api::service_status::{ServiceStatus, WorkerTypeStatus};
use crate::api::service_validate::validate;
use crate::cluster::Key;
use crate::cluster::metrics::METRICS;
use crate::cluster::objects::{
    ApiError, ApiResult, DEPLOYMENTS, FOREBAY_SERVICES, Kind, PODS, POLICIES, is_terminating, text,
};
use crate::cluster::work_queue::Requeue;
use crate::scale::Workload;
use crate::scale::cause::{self, WorkloadName};

/// Resync interval of a service without a watch event.
const RESYNC: Duration = Duration::from_secs(60);
/// Requeue interval while the dispatcher scales the workers, or pods are missing.
const SCALE_INTERVAL: Duration = Duration::from_secs(5);
/// Requeue interval of a service that waits for the deletion of an object.
const BLOCKED_INTERVAL: Duration = Duration::from_secs(2);

/// Reconciles a service.
///
/// # Errors
/// When the API does not answer, or reports a conflict.
pub(crate) async fn reconcile(context: &Context, key: &Key) -> ApiResult<Requeue> {
    let Some(read) = context.store.get(FOREBAY_SERVICES, key).filter(|read| !is_terminating(read)) else {
        // The garbage collector deletes the objects that the service owns.
        context.memory.forget(key);
        METRICS.set_state("service", key, None);
        return Ok(Requeue::OnChange);
    };
    let Some(service) = parse(context, &read).await else { return Ok(Requeue::After(RESYNC)) };
    let mut observed = Observation {
        now: Timestamp::now(),
        generation: service.metadata.generation,
        address: Some(format!("forebay://{}", manifests::address(&key.name, &key.namespace))),
        ..Observation::default()
    };
    let mut failed = false;
    match validate(&key.name, &service.spec) {
        Err(invalid) => observed.fault = Some(("InvalidSpec", invalid)),
        Ok(()) => failed = apply_all(context, key, &service, &mut observed).await?,
    }
    observe(context, key, &service, &mut observed).await;
    let next = status::next(&service.status.clone().unwrap_or_default(), &observed);
    METRICS.set_state("service", key, Some(next.reason.as_deref().unwrap_or("AsDescribed")));
    write_status(context, key, &read, &service, next).await?;
    let is_scaled = service.spec.workers.iter().any(|worker| {
        let (min, max) = service.spec.bounds(worker);
        min < max
    });
    let is_rolling_out = observed.workers.iter().any(|w| w.ready < w.replicas) || !observed.dispatchers.rolled_out;
    Ok(match &observed.fault {
        _ if failed => Requeue::WithBackoff,
        Some((reason, _)) if *reason == "InvalidSpec" => Requeue::After(RESYNC),
        _ if observed.blocked_by.is_some() => Requeue::After(BLOCKED_INTERVAL),
        _ if is_scaled || is_rolling_out => Requeue::After(SCALE_INTERVAL),
        _ => Requeue::After(RESYNC),
    })
}

/// Applies all manifests, and prunes objects that the spec no longer has. Returns whether the API rejected a manifest.
async fn apply_all(
    context: &Context,
    key: &Key,
    service: &ForebayService,
    observed: &mut Observation,
) -> ApiResult<bool> {
    let manifests = manifests::manifests(service, &context.cluster);
    for manifest in manifests.first.iter().chain([&manifests.dispatcher]) {
        if !apply_one(context, key, service, manifest, observed).await? {
            return Ok(true);
        }
    }
    let set = context.store.get(STATEFUL_SETS, &Key::new(key.namespace.clone(), dispatcher_name(&key.name)));
    let is_rolled_out = set.as_ref().is_some_and(is_rolled_out);
    let wanted_workers = wanted_workers(context, key, service).await;
    for (worker, manifest) in service.spec.workers.iter().zip(&manifests.workers) {
        let name = Key::new(key.namespace.clone(), manifest.name.clone());
        let found = deployment(context, &name).await?;
        let (mut manifest, mut scaled) = (manifest.clone(), None);
        if let Some(found) = found {
            if !is_rolled_out {
                continue;
            }
            let wanted = wanted_workers.of(service.spec.offered(worker));
            let workload = Workload::of(found);
            let bounds = service.spec.bounds(worker);
            let replicas = context.memory.replicas((key, &manifest.name), context.now(), wanted, &workload, bounds);
            manifest.body["spec"]["replicas"] = json!(replicas);
            scaled = Some((workload.replicas, replicas)).filter(|(from, to)| from != to);
        }
        if !apply_one(context, key, service, &manifest, observed).await? {
            return Ok(true);
        }
        if let Some((from, to)) = scaled {
            tracing::info!(deployment = %name, from, to, "scaled");
        }
    }
    prune(context, key, service, &manifests).await?;
    Ok(false)
}

/// Returns a Deployment from the store; from the API while the store lacks it, as after a start of the operator.
async fn deployment(context: &Context, name: &Key) -> ApiResult<Option<Value>> {
    if let Some(cached) = context.store.get(DEPLOYMENTS, name) {
        return Ok(Some(cached));
    }
    let found = context.api.find(&DEPLOYMENTS.object_path(Some(&name.namespace), &name.name)).await?;
    if let Some(found) = &found {
        context.store.put_newer(DEPLOYMENTS, found);
    }
    Ok(found)
}

/// Applies one manifest. Returns whether to continue with the others.
async fn apply_one(
    context: &Context,
    key: &Key,
    service: &ForebayService,
    manifest: &Manifest,
    observed: &mut Observation,
) -> ApiResult<bool> {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    match apply(context, (key, uid), manifest, context.now()).await {
        Ok(Applied::InSync(_)) => {}
        Ok(Applied::Blocked(what)) => _ = observed.blocked_by.get_or_insert(what),
        Ok(Applied::NotOwned(what)) => _ = observed.fault.get_or_insert(("ChildNotOwned", what)),
        Err(error) if error.is_namespace_terminating() => {
            let message = "the namespace is being deleted, so nothing is made in it".to_owned();
            observed.fault = Some(("NamespaceTerminating", message));
        }
        Err(error) if error.is_final() => {
            observed.fault = Some(rejection(&error));
            return Ok(false);
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}

fn rejection(error: &ApiError) -> (&'static str, String) {
    if matches!(error.code, 401 | 403) {
        let hint = "deploy/kubernetes/rbac.yaml has what the operator needs";
        return ("Forbidden", format!("{error}; {hint}"));
    }
    ("Refused", error.to_string())
}

/// Fetches the number of workers that the dispatcher wants, unless all replica counts are fixed.
async fn wanted_workers(context: &Context, key: &Key, service: &ForebayService) -> WantedWorkers {
    let is_fixed = service.spec.workers.iter().all(|worker| {
        let (min, max) = service.spec.bounds(worker);
        min == max
    });
    if is_fixed {
        return WantedWorkers::default();
    }
    let wanted_workers = wanted_workers::fetch(&context.store.of_service(PODS, key)).await;
    context.memory.set_wanted(key, wanted_workers.clone());
    wanted_workers
}

/// Deletes owned Deployments and NetworkPolicies without a manifest.
async fn prune(
    context: &Context,
    key: &Key,
    service: &ForebayService,
    manifests: &manifests::Manifests,
) -> ApiResult<()> {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let is_desired = |kind: Kind, name: &str| {
        manifests.first.iter().chain(&manifests.workers).any(|manifest| manifest.kind == kind && manifest.name == name)
    };
    for kind in [DEPLOYMENTS, POLICIES] {
        for object in context.store.of_service(kind, key) {
            let name = text(&object, "/metadata/name");
            if !is_terminating(&object) && is_owned_by(&object, key, uid) && !is_desired(kind, name) {
                let path = kind.object_path(Some(&key.namespace), name);
                context.api.delete(&path, text(&object, "/metadata/uid"), None).await?;
                tracing::info!(path, "deleted, because the service no longer has it");
            }
        }
    }
    Ok(())
}

/// Reads replicas of dispatchers and workers, and the cause of missing pods.
async fn observe(context: &Context, key: &Key, service: &ForebayService, observed: &mut Observation) {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let number = |object: &Value, at: &str| {
        object.pointer(at).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    };
    let of_kind = |kind| context.store.of_service(kind, key).into_iter().filter(|object| is_owned_by(object, key, uid));
    for set in of_kind(STATEFUL_SETS) {
        let (replicas, ready) = (number(&set, "/spec/replicas"), number(&set, "/status/readyReplicas"));
        observed.dispatchers = Dispatchers { replicas, ready, rolled_out: is_rolled_out(&set) };
        explain_missing(context, key, ("StatefulSet", "dispatcher"), set, observed).await;
    }
    let wanted_workers = context.memory.wanted(key);
    for deployment in of_kind(DEPLOYMENTS) {
        let label = deployment.pointer("/metadata/labels").and_then(|labels| labels.get(WORKER_TYPE));
        let name = label.and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(worker) = service.spec.workers.iter().find(|worker| worker.name == name) else { continue };
        let is_current =
            number(&deployment, "/status/observedGeneration") >= number(&deployment, "/metadata/generation");
        observed.workers.push(WorkerTypeStatus {
            wanted: wanted_workers.of(service.spec.offered(worker)),
            replicas: number(&deployment, "/spec/replicas"),
            ready: number(&deployment, "/status/readyReplicas"),
            // The status of an earlier generation does not describe this spec.
            updated: if is_current { number(&deployment, "/status/updatedReplicas") } else { 0 },
            name: name.clone(),
        });
        explain_missing(context, key, ("Deployment", &name), deployment, observed).await;
    }
}

/// Records the cause of missing pods of a workload, after a minute.
async fn explain_missing(
    context: &Context,
    key: &Key,
    (kind, what): (&str, &str),
    object: Value,
    observed: &mut Observation,
) {
    let (workload, now) = (Workload::of(object), context.now());
    let why = match context.memory.missing((key, what), now, &workload) {
        Missing::No => return,
        Missing::Cause(why) => why,
        Missing::CauseUnknown => {
            let read = async |path: String| context.api.get(&path).await.map_err(|error| error.to_string());
            let name = text(&workload.object, "/metadata/name");
            let why = cause::why(WorkloadName { namespace: &key.namespace, kind, name }, &workload.object, read).await;
            context.memory.set_cause((key, what), now, why.clone());
            why
        }
    };
    let (ready, replicas) = (workload.ready, workload.replicas);
    observed.fault.get_or_insert(("PodsMissing", format!("{ready} of {replicas} pods of {what} are ready: {why}")));
}

/// Parses the object; publishes a warning if its spec cannot be read.
async fn parse(context: &Context, read: &Value) -> Option<ForebayService> {
    match serde_json::from_value::<ForebayService>(read.clone()) {
        Ok(service) => Some(service),
        Err(first) => {
            // The spec counts even if another program wrote an unknown status.
            let mut bare = read.clone();
            bare["status"] = Value::Null;
            let service = serde_json::from_value(bare);
            if service.is_err() {
                context.events.warning(read, "InvalidSpec", &format!("the spec cannot be read: {first}")).await;
            }
            service.ok()
        }
    }
}

/// Writes a changed status, and publishes events for changed conditions.
///
/// # Errors
/// Conflict when the object changed since it was read.
async fn write_status(
    context: &Context,
    key: &Key,
    read: &Value,
    service: &ForebayService,
    next: ServiceStatus,
) -> ApiResult<()> {
    let old = service.status.clone().unwrap_or_default();
    if Some(&next) == service.status.as_ref() {
        return Ok(());
    }
    let mut object = read.clone();
    object["status"] = serde_json::to_value(&next).unwrap_or_default();
    let path = FOREBAY_SERVICES.object_path(Some(&key.namespace), &key.name);
    let written = context.api.replace(&format!("{path}/status"), &object).await?;
    context.store.put_newer(FOREBAY_SERVICES, &written);
    for condition in &next.conditions {
        let before = old.conditions.iter().find(|c| c.type_ == condition.type_);
        let is_new = before.is_none_or(|b| (&b.status, &b.reason) != (&condition.status, &condition.reason));
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Degraded", "True") if is_new => {
                tracing::warn!(service = %key, reason = condition.reason, message = condition.message, "degraded");
                context.events.warning(read, &condition.reason, &condition.message).await;
            }
            ("Ready", "True") if is_new => context.events.normal(read, &condition.reason, &condition.message).await,
            _ => {}
        }
    }
    Ok(())
}
