//! Caches that jobs define themselves, and what a job hears whose cache is not there.

use serde_json::json;

use super::Context;
use super::uses::{DesiredCache, Use};
use crate::api::User;
use crate::cluster::Key;
use crate::cluster::objects::{ApiError, ApiResult, CACHE_BACKENDS};
use crate::cluster::work_queue::Requeue;

/// Annotation of a cache: the job for which it was made.
pub(crate) const MADE_FOR: &str = "forebay.dev/made-for";

/// Makes a cache that is not there, if a job defines it; the oldest of several does.
///
/// # Errors
/// When the API does not answer.
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
        // The watch tells of it.
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

/// An object, as far as events need it.
pub(crate) fn object_reference(of: &User) -> serde_json::Value {
    json!({
        "apiVersion": of.api_version, "kind": of.kind,
        "metadata": {"namespace": of.namespace, "name": of.name, "uid": of.uid},
    })
}
