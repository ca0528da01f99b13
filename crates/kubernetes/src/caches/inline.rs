//! Caches that jobs define themselves, and what a job hears whose cache is not there.

use serde_json::json;

use super::Context;
use super::uses::{Use, Wanted};
use crate::api::User;
use crate::cluster::Key;
use crate::cluster::objects::{Answer, CACHE_BACKENDS, Refused};
use crate::cluster::queue::Next;

/// Annotation of a cache: the job for which it was made.
pub(crate) const MADE_FOR: &str = "forebay.dev/made-for";

/// Makes a cache that is not there, if a job defines it; the oldest of several does.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn make(context: &Context, key: &Key, uses: &[Use]) -> Answer<Next> {
    for (user, wrong) in uses.iter().filter_map(|u| Some((u, u.wrong.as_ref()?))) {
        context.events.warn(&reference(&user.object), "InvalidCacheSpec", wrong).await;
    }
    let defined =
        uses.iter().filter_map(|u| Some((u, u.wanted.as_ref().filter(|w| w.spec.is_definition() || w.is_own)?)));
    let oldest = defined.min_by(|(a, x), (b, y)| (&x.created, &a.user).cmp(&(&y.created, &b.user)));
    let Some((job, wanted)) = oldest else {
        for waiting in uses.iter().filter(|u| u.wrong.is_none()) {
            let note =
                format!("there is no CacheBackend {key}, and nothing here defines it; the pods wait until there is");
            context.events.warn(&reference(&waiting.object), "CacheBackendNotFound", &note).await;
        }
        return Ok(Next::Settled);
    };
    match context.objects.create(&CACHE_BACKENDS.all(Some(&key.namespace)), &made_of(key, &job.user, wanted)).await {
        Ok(_) => {
            let note = format!("CacheBackend {} is made", key.name);
            context.events.say(&reference(&job.object), "CacheBackendCreated", &note).await;
            Ok(Next::Settled)
        }
        // The watch tells of it.
        Err(refused) if refused.is_conflict() => Ok(Next::Settled),
        Err(refused) if refused.is_of_a_namespace_that_goes() => Ok(Next::Settled),
        Err(refused) => {
            if refused.is_final() {
                context.events.warn(&reference(&job.object), "CacheBackendRefused", &said(&refused)).await;
            }
            Err(refused)
        }
    }
}

fn made_of(key: &Key, job: &User, wanted: &Wanted) -> serde_json::Value {
    let mut spec = wanted.spec.clone();
    spec.name = None;
    let mut cache = json!({
        "apiVersion": CACHE_BACKENDS.api_version(), "kind": CACHE_BACKENDS.kind, "spec": spec,
        "metadata": {"name": key.name, "namespace": key.namespace, "annotations": {MADE_FOR: job.name}},
    });
    if wanted.is_own {
        cache["metadata"]["ownerReferences"] = json!([{"apiVersion": job.api_version, "kind": job.kind, "name": job.name, "uid": job.uid, "controller": true}]);
    }
    cache
}

fn said(refused: &Refused) -> String {
    format!("the CacheBackend of this job was refused: {}", refused.message)
}

/// An object, as far as events need it.
pub(crate) fn reference(of: &User) -> serde_json::Value {
    json!({
        "apiVersion": of.api_version, "kind": of.kind,
        "metadata": {"namespace": of.namespace, "name": of.name, "uid": of.uid},
    })
}
