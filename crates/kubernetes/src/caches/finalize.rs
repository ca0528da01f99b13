//! Finalizes a terminating CacheBackend: waits for its users, deletes its children, then removes the finalizer.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::uses::{self, CACHE, Use};
use super::{Context, WORKLOADS, reconcile, status, ungate};
use crate::api::status::whole;
use crate::api::validate::named;
use crate::api::{CacheBackend, Condition};
use crate::cluster::Key;
use crate::cluster::objects::{ApiResult, CACHE_BACKENDS, PODS, items, selector};
use crate::cluster::work_queue::Requeue;
use crate::engines::children;

/// The finalizer that keeps a CacheBackend until its children are deleted.
pub(crate) const FINALIZER: &str = "forebay.dev/cache";
/// Requeue interval while children are terminating.
const INTERVAL: Duration = Duration::from_secs(2);
/// Requeue interval while the cache has users.
const IN_USE_INTERVAL: Duration = Duration::from_secs(60);

/// Continues the deletion.
///
/// # Errors
/// When the API rejects a request, or does not answer.
pub(crate) async fn finalize(context: &Context, key: &Key, read: &Value, cache: &CacheBackend) -> ApiResult<Requeue> {
    let at = items(read, "/metadata/finalizers").iter().position(|f| f == FINALIZER);
    let Some(at) = at else { return Ok(Requeue::OnChange) };
    let uses = list_uses(context, key).await?;
    let is_ready = cache.status.as_ref().is_some_and(|s| status::is_ready(cache, s).is_ok());
    let users: HashSet<_> = uses.iter().filter(|u| is_ready || u.is_running_pod()).map(|u| u.user.clone()).collect();
    let now = Timestamp::now();
    if !users.is_empty() {
        // A job that uses the cache may still create pods, and needs them to complete.
        if is_ready {
            ungate::ungate(context, &uses).await?;
        }
        let mut names: Vec<_> = users.iter().take(5).map(|u| format!("{} {}", u.kind, u.name)).collect();
        names.sort();
        let message = format!("used by {}: it goes when they end", names.join(", "));
        set_deleting(context, read, cache, &uses, ("InUse", &message)).await?;
        return Ok(Requeue::After(IN_USE_INTERVAL));
    }
    let left = children::tear_down(&context.api, cache, &context.settings, now).await?;
    if !left.is_empty() {
        set_deleting(context, read, cache, &uses, ("Leaving", &format!("waits for {}", left.join(", ")))).await?;
        return Ok(Requeue::After(INTERVAL));
    }
    let at = format!("/metadata/finalizers/{at}");
    let operations = json!([{"op": "test", "path": at, "value": FINALIZER}, {"op": "remove", "path": at}]);
    match context.api.patch(&CACHE_BACKENDS.object_path(Some(&key.namespace), &key.name), &operations).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(Requeue::OnChange),
    }
}

/// Lists the current users through the API, because the index may lag behind.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn list_uses(context: &Context, key: &Key) -> ApiResult<Vec<Use>> {
    let mut found = Vec::new();
    // A pod cannot use a cache whose name is not a valid label value.
    let pods = named(&key.name).is_ok().then_some(PODS);
    for kind in WORKLOADS.into_iter().chain(pods) {
        let labels = if kind == PODS { selector(CACHE, &key.name) } else { String::new() };
        let objects = context.api.list(&kind.collection_path(Some(&key.namespace)), &labels).await?;
        found.extend(objects.iter().filter_map(|object| uses::read(kind, object)).filter(|u| u.cache == *key));
    }
    Ok(found)
}

async fn set_deleting(
    context: &Context,
    read: &Value,
    cache: &CacheBackend,
    uses: &[Use],
    why: (&str, &str),
) -> ApiResult<()> {
    let mut status = cache.status.clone().unwrap_or_default();
    let (reason, message) = why;
    let is_new = status.condition("Deleting").is_none_or(|c| c.reason != reason);
    let mut users: Vec<_> = uses.iter().map(|u| u.user.clone()).collect();
    users.sort();
    users.dedup();
    status.used_num = i64::try_from(users.len()).unwrap_or(i64::MAX);
    status.used_by = users.iter().map(|u| u.name.clone()).collect();
    status.users = users;
    let condition = Condition {
        type_: "Deleting".to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: cache.metadata.generation,
        last_transition_time: None,
    };
    status.set(whole(Timestamp::now()), condition);
    reconcile::write_status(context, read, cache, status).await?;
    if is_new && reason == "InUse" {
        context.events.warning(read, "DeletionDelayed", message).await;
    }
    Ok(())
}
