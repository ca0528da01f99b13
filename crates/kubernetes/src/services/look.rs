//! One look at a service: it makes the parts and puts them right, scales the workers, and writes the status.
//!
//! Order: the objects that pods need come first, then the dispatchers. Existing workers get a changed spec when all
//! dispatchers have theirs and are ready, so that one roll-out ends before the next begins.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Context;
use super::apply::{Applied, apply, is_of};
use super::memory::Missing;
use super::parts::{self, DEPLOYMENTS, POLICIES, Part, STATEFUL_SETS, WORKER_TYPE, dispatcher_name, is_rolled_out};
use super::status::{self, Dispatchers, Observation};
use super::wants::{self, Wants};
use crate::api::service::ForebayService;
use crate::api::service_status::{ServiceStatus, WorkersTold};
use crate::api::service_validate::validate;
use crate::cluster::Key;
use crate::cluster::meter::METER;
use crate::cluster::objects::{Answer, FOREBAY_SERVICES, Kind, PODS, Refused, is_going, text};
use crate::cluster::queue::Next;
use crate::scale::Workload;
use crate::scale::cause::{self, Named};

/// Pause before the next look at a service that needs nothing; a change of an object ends it.
const AGAIN: Duration = Duration::from_secs(60);
/// Pause between two questions to a dispatcher, and between two looks for missing pods.
const SCALE_AGAIN: Duration = Duration::from_secs(5);
/// Pause before the next look at a service that waits for the deletion of an object.
const WAITS_AGAIN: Duration = Duration::from_secs(2);

/// Looks at a service.
///
/// # Errors
/// When the API does not answer, or something changed meanwhile.
pub(crate) async fn look(context: &Context, key: &Key) -> Answer<Next> {
    let Some(read) = context.store.get(FOREBAY_SERVICES, key).filter(|read| !is_going(read)) else {
        // Its parts are owned by it, and go with it.
        context.memory.forget(key);
        METER.state("service", key, None);
        return Ok(Next::Settled);
    };
    let Some(service) = parsed(context, &read).await else { return Ok(Next::After(AGAIN)) };
    let mut seen = Observation {
        now: Timestamp::now(),
        generation: service.metadata.generation,
        address: Some(format!("forebay://{}", parts::address(&key.name, &key.namespace))),
        ..Observation::default()
    };
    let mut failed = false;
    match validate(&key.name, &service.spec) {
        Err(invalid) => seen.wrong = Some(("InvalidSpec", invalid)),
        Ok(()) => failed = bring(context, key, &service, &mut seen).await?,
    }
    observe(context, key, &service, &mut seen).await;
    let next = status::next(&service.status.clone().unwrap_or_default(), &seen);
    METER.state("service", key, Some(next.reason.as_deref().unwrap_or("AsDescribed")));
    write(context, key, &read, &service, next).await?;
    let scales = service.spec.workers.iter().any(|worker| {
        let (min, max) = service.spec.bounds(worker);
        min < max
    });
    let late = seen.workers.iter().any(|w| w.ready < w.replicas) || !seen.dispatchers.rolled_out;
    Ok(match &seen.wrong {
        _ if failed => Next::Failed,
        Some((reason, _)) if *reason == "InvalidSpec" => Next::After(AGAIN),
        _ if seen.waits.is_some() => Next::After(WAITS_AGAIN),
        _ if scales || late => Next::After(SCALE_AGAIN),
        _ => Next::After(AGAIN),
    })
}

/// Makes the parts, corrects them, and deletes parts that the spec no longer has. Returns whether the API refused
/// one.
async fn bring(context: &Context, key: &Key, service: &ForebayService, seen: &mut Observation) -> Answer<bool> {
    let parts = parts::parts(service, &context.place);
    for part in parts.first.iter().chain([&parts.dispatcher]) {
        if !one(context, key, service, part, seen).await? {
            return Ok(true);
        }
    }
    let set = context.store.get(STATEFUL_SETS, &Key::new(key.namespace.clone(), dispatcher_name(&key.name)));
    let is_rolled_out = set.as_ref().is_some_and(is_rolled_out);
    let wants = wants(context, key, service).await;
    for (worker, part) in service.spec.workers.iter().zip(&parts.workers) {
        let place = Key::new(key.namespace.clone(), part.name.clone());
        let there = deployment(context, &place).await?;
        let (mut part, mut scaled) = (part.clone(), None);
        if let Some(there) = there {
            if !is_rolled_out {
                continue;
            }
            let wanted = wants.of(service.spec.offered(worker));
            let workload = Workload::of(there);
            let bounds = service.spec.bounds(worker);
            let replicas = context.memory.replicas((key, &part.name), context.now(), wanted, &workload, bounds);
            part.body["spec"]["replicas"] = json!(replicas);
            scaled = Some((workload.replicas, replicas)).filter(|(from, to)| from != to);
        }
        if !one(context, key, service, &part, seen).await? {
            return Ok(true);
        }
        if let Some((from, to)) = scaled {
            tracing::info!(deployment = %place, from, to, "scaled");
        }
    }
    remove(context, key, service, &parts).await?;
    Ok(false)
}

/// Returns a Deployment; where no watch told of it yet, as after a start, the API is asked how many replicas it has.
async fn deployment(context: &Context, place: &Key) -> Answer<Option<Value>> {
    if let Some(told) = context.store.get(DEPLOYMENTS, place) {
        return Ok(Some(told));
    }
    let found = context.objects.find(&DEPLOYMENTS.one(Some(&place.namespace), &place.name)).await?;
    if let Some(found) = &found {
        context.store.learn(DEPLOYMENTS, found);
    }
    Ok(found)
}

/// Makes one part. Returns whether to go on with the others.
async fn one(
    context: &Context,
    key: &Key,
    service: &ForebayService,
    part: &Part,
    seen: &mut Observation,
) -> Answer<bool> {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    match apply(context, (key, uid), part, context.now()).await {
        Ok(Applied::There(_)) => {}
        Ok(Applied::Waits(what)) => _ = seen.waits.get_or_insert(what),
        Ok(Applied::Taken(what)) => _ = seen.wrong.get_or_insert(("ChildNotOwned", what)),
        Err(refused) if refused.is_of_a_namespace_that_goes() => {
            let message = "the namespace is being deleted, so nothing is made in it".to_owned();
            seen.wrong = Some(("NamespaceTerminating", message));
        }
        Err(refused) if refused.is_final() => {
            seen.wrong = Some(refusal(&refused));
            return Ok(false);
        }
        Err(refused) => return Err(refused),
    }
    Ok(true)
}

fn refusal(refused: &Refused) -> (&'static str, String) {
    if matches!(refused.code, 401 | 403) {
        let hint = "deploy/kubernetes/rbac.yaml has what the operator needs";
        return ("Forbidden", format!("{refused}; {hint}"));
    }
    ("Refused", refused.to_string())
}

/// Asks the dispatcher how many workers it wants, unless all numbers are fixed.
async fn wants(context: &Context, key: &Key, service: &ForebayService) -> Wants {
    let is_fixed = service.spec.workers.iter().all(|worker| {
        let (min, max) = service.spec.bounds(worker);
        min == max
    });
    if is_fixed {
        return Wants::default();
    }
    let wants = wants::ask(&context.store.of_service(PODS, key)).await;
    context.memory.wants(key, wants.clone());
    wants
}

/// Deletes the Deployments and policies that the spec no longer has.
async fn remove(context: &Context, key: &Key, service: &ForebayService, parts: &parts::Parts) -> Answer<()> {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let described = |kind: Kind, name: &str| {
        parts.first.iter().chain(&parts.workers).any(|part| part.kind == kind && part.name == name)
    };
    for kind in [DEPLOYMENTS, POLICIES] {
        for object in context.store.of_service(kind, key) {
            let name = text(&object, "/metadata/name");
            if !is_going(&object) && is_of(&object, key, uid) && !described(kind, name) {
                let path = kind.one(Some(&key.namespace), name);
                context.objects.delete(&path, text(&object, "/metadata/uid"), None).await?;
                tracing::info!(path, "deleted, because the service no longer has it");
            }
        }
    }
    Ok(())
}

/// Counts the pods, and finds out why pods are missing.
async fn observe(context: &Context, key: &Key, service: &ForebayService, seen: &mut Observation) {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let number = |object: &Value, at: &str| {
        object.pointer(at).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    };
    let of_kind = |kind| context.store.of_service(kind, key).into_iter().filter(|object| is_of(object, key, uid));
    for set in of_kind(STATEFUL_SETS) {
        let (replicas, ready) = (number(&set, "/spec/replicas"), number(&set, "/status/readyReplicas"));
        seen.dispatchers = Dispatchers { replicas, ready, rolled_out: is_rolled_out(&set) };
        missing(context, key, ("StatefulSet", "dispatcher"), set, seen).await;
    }
    let wants = context.memory.wanted(key);
    for deployment in of_kind(DEPLOYMENTS) {
        let label = deployment.pointer("/metadata/labels").and_then(|labels| labels.get(WORKER_TYPE));
        let name = label.and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(worker) = service.spec.workers.iter().find(|worker| worker.name == name) else { continue };
        let is_told = number(&deployment, "/status/observedGeneration") >= number(&deployment, "/metadata/generation");
        seen.workers.push(WorkersTold {
            wanted: wants.of(service.spec.offered(worker)),
            replicas: number(&deployment, "/spec/replicas"),
            ready: number(&deployment, "/status/readyReplicas"),
            // A status of an earlier spec says nothing of this one.
            updated: if is_told { number(&deployment, "/status/updatedReplicas") } else { 0 },
            name: name.clone(),
        });
        missing(context, key, ("Deployment", &name), deployment, seen).await;
    }
}

/// Finds out why pods of a workload are missing, if they have been for a minute.
async fn missing(context: &Context, key: &Key, (kind, what): (&str, &str), object: Value, seen: &mut Observation) {
    let (workload, now) = (Workload::of(object), context.now());
    let why = match context.memory.missing((key, what), now, &workload) {
        Missing::No => return,
        Missing::Because(why) => why,
        Missing::Read => {
            let read = async |path: String| context.objects.get(&path).await.map_err(|refused| refused.to_string());
            let name = text(&workload.object, "/metadata/name");
            let why = cause::why(Named { namespace: &key.namespace, kind, name }, &workload.object, read).await;
            context.memory.because((key, what), now, why.clone());
            why
        }
    };
    let (ready, replicas) = (workload.ready, workload.replicas);
    seen.wrong.get_or_insert(("PodsMissing", format!("{ready} of {replicas} pods of {what} are ready: {why}")));
}

/// Reads the object; an event says so if it cannot be read.
async fn parsed(context: &Context, read: &Value) -> Option<ForebayService> {
    match serde_json::from_value::<ForebayService>(read.clone()) {
        Ok(service) => Some(service),
        Err(first) => {
            // A status that another program wrote is no reason not to look at the spec.
            let mut bare = read.clone();
            bare["status"] = Value::Null;
            let service = serde_json::from_value(bare);
            if service.is_err() {
                context.events.warn(read, "InvalidSpec", &format!("the spec cannot be read: {first}")).await;
            }
            service.ok()
        }
    }
}

/// Writes a status that changed, and tells of what changed in it.
///
/// # Errors
/// Conflict when the object changed since it was read.
async fn write(
    context: &Context,
    key: &Key,
    read: &Value,
    service: &ForebayService,
    next: ServiceStatus,
) -> Answer<()> {
    let old = service.status.clone().unwrap_or_default();
    if Some(&next) == service.status.as_ref() {
        return Ok(());
    }
    let mut object = read.clone();
    object["status"] = serde_json::to_value(&next).unwrap_or_default();
    let path = FOREBAY_SERVICES.one(Some(&key.namespace), &key.name);
    let written = context.objects.replace(&format!("{path}/status"), &object).await?;
    context.store.learn(FOREBAY_SERVICES, &written);
    for condition in &next.conditions {
        let before = old.conditions.iter().find(|c| c.type_ == condition.type_);
        let is_new = before.is_none_or(|b| (&b.status, &b.reason) != (&condition.status, &condition.reason));
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Degraded", "True") if is_new => {
                tracing::warn!(service = %key, reason = condition.reason, message = condition.message, "degraded");
                context.events.warn(read, &condition.reason, &condition.message).await;
            }
            ("Ready", "True") if is_new => context.events.say(read, &condition.reason, &condition.message).await,
            _ => {}
        }
    }
    Ok(())
}
