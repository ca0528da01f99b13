//! Inline caches: creates the CacheBackend that a workload defines, or publishes an event when no workload defines it.

use serde_json::json;

use super::Context;
use super::uses::{DesiredCache, Use};
use crate::api::User;
use crate::cluster::Key;
use crate::cluster::objects::{ApiError, ApiResult, CACHE_BACKENDS};
use crate::cluster::work_queue::Requeue;

/// Annotation of a CacheBackend: name of the workload for which the operator created it.
pub(crate) const MADE_FOR: &str = "forebay.dev/made-for";

/// Creates a CacheBackend from the definition of a workload; from the oldest if several workloads define it.
///
/// # Errors
/// When the API rejects the CacheBackend, or does not answer.
pub(crate) async fn create(context: &Context, key: &Key, uses: &[Use]) -> ApiResult<Requeue> {
    for (user, fault) in uses.iter().filter_map(|u| Some((u, u.fault.as_ref()?))) {
        context.events.warning(&object_reference(&user.object), "InvalidCacheSpec", fault).await;
    }
    let defined =
        uses.iter().filter_map(|u| Some((u, u.desired.as_ref().filter(|w| w.spec.is_definition() || w.is_own)?)));
    let oldest = defined.min_by(|(a, x), (b, y)| (&x.created, &a.user).cmp(&(&y.created, &b.user)));
    let Some((job, desired)) = oldest else {
        for waiting in uses.iter().filter(|u| u.fault.is_none()) {
            let note =
                format!("there is no CacheBackend {key}, and nothing here defines it; the pods wait until there is");
            context.events.warning(&object_reference(&waiting.object), "CacheBackendNotFound", &note).await;
        }
        return Ok(Requeue::OnChange);
    };
    match context
        .api
        .create(&CACHE_BACKENDS.collection_path(Some(&key.namespace)), &manifest(key, &job.user, desired))
        .await
    {
        Ok(_) => {
            let note = format!("CacheBackend {} is made", key.name);
            context.events.normal(&object_reference(&job.object), "CacheBackendCreated", &note).await;
            Ok(Requeue::OnChange)
        }
        // It exists meanwhile; its watch event queues the key.
        Err(error) if error.is_conflict() => Ok(Requeue::OnChange),
        Err(error) if error.is_namespace_terminating() => Ok(Requeue::OnChange),
        Err(error) => {
            if error.is_final() {
                context.events.warning(&object_reference(&job.object), "CacheBackendRefused", &rejection(&error)).await;
            }
            Err(error)
        }
    }
}

fn manifest(key: &Key, job: &User, desired: &DesiredCache) -> serde_json::Value {
    let mut spec = desired.spec.clone();
    spec.name = None;
    let mut cache = json!({
        "apiVersion": CACHE_BACKENDS.api_version(), "kind": CACHE_BACKENDS.kind, "spec": spec,
        "metadata": {"name": key.name, "namespace": key.namespace, "annotations": {MADE_FOR: job.name}},
    });
    if desired.is_own {
        cache["metadata"]["ownerReferences"] = json!([{"apiVersion": job.api_version, "kind": job.kind, "name": job.name, "uid": job.uid, "controller": true}]);
    }
    cache
}

fn rejection(error: &ApiError) -> String {
    format!("the CacheBackend of this job was refused: {}", error.message)
}

/// The fields of an object that an event needs.
pub(crate) fn object_reference(of: &User) -> serde_json::Value {
    json!({
        "apiVersion": of.api_version, "kind": of.kind,
        "metadata": {"namespace": of.namespace, "name": of.name, "uid": of.uid},
    })
}
