//! Reconciles one CacheBackend: compares the desired with the observed state, changes the children, writes the status.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::finalize::{self, FINALIZER};
use super::status::{self, Observation};
use super::{Context, inline, ungate};
use crate::api::validate::validate;
use crate::api::{CacheBackend, CacheBackendStatus, CacheStatus};
use crate::cluster::Key;
use crate::cluster::metrics::METRICS;
use crate::cluster::objects::{ApiResult, CACHE_BACKENDS, is_terminating, items, text};
use crate::cluster::work_queue::Requeue;
use crate::engines::children::{self, Claim, Ensured};
use crate::engines::{Progress, engine_of};

/// Resync interval of a cache without a watch event.
const RESYNC: Duration = Duration::from_secs(300);
/// Requeue interval of a cache that waits for the deletion of an object.
const BLOCKED_INTERVAL: Duration = Duration::from_secs(2);
/// Requeue intervals of a cache with cache nodes: while they read data or start, and afterwards.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
const NODES_INTERVAL: Duration = Duration::from_secs(60);

/// Reconciles a cache.
///
/// # Errors
/// When the API rejects a request, does not answer, or reports a conflict.
pub(crate) async fn reconcile(context: &Context, key: &Key) -> ApiResult<Requeue> {
    let uses = context.index.of(key);
    let Some(read) = context.api.find(&CACHE_BACKENDS.object_path(Some(&key.namespace), &key.name)).await? else {
        context.index.remove_cache(key);
        context.figures.remove(key);
        METRICS.set_state("cache", key, None);
        return if uses.is_empty() { Ok(Requeue::OnChange) } else { inline::create(context, key, &uses).await };
    };
    context.index.add_cache(key.clone());
    let Some(cache) = parse(context, &read).await else { return Ok(Requeue::After(RESYNC)) };
    if is_terminating(&read) {
        return finalize::finalize(context, key, &read, &cache).await;
    }
    if !items(&read, "/metadata/finalizers").iter().any(|f| f == FINALIZER) {
        // The watch event of this change queues the key again.
        add_finalizer(context, key, &read).await?;
        return Ok(Requeue::OnChange);
    }
    if cache.status.as_ref().and_then(|s| s.cache_status).is_none() {
        let first = Observation { now: Timestamp::now(), uses: &uses, invalid: None, children: None };
        write_status(context, &read, &cache, status::next(&cache, &first)).await?;
        return Ok(Requeue::OnChange);
    }
    let invalid = invalid(key, &cache);
    let children = match (&invalid, engine_of(&cache.spec)) {
        (None, Some(engine)) => Some(match children::ensure(&context.api, engine, &cache, &context.settings).await {
            Err(failure) => Err(failure),
            Ok(blocked @ Ensured::Blocked { .. }) => Ok((blocked, Claim::Absent, Progress::default())),
            Ok(ensured) => {
                let (settings, figures) = (&context.settings, &context.figures);
                let (claim, progress) = children::observe(&context.api, engine, &cache, settings, figures).await?;
                Ok((ensured, claim, progress))
            }
        }),
        _ => None,
    };
    let observed = Observation { now: Timestamp::now(), uses: &uses, invalid, children };
    let next = status::next(&cache, &observed);
    let is_ready = status::is_ready(&cache, &next).is_ok();
    let seconds_left = status::seconds_left(&cache, &next, observed.now);
    let state = serde_json::to_value(next.cache_status).unwrap_or_default();
    METRICS.set_state("cache", key, Some(state.as_str().unwrap_or("Unknown")));
    let written = write_status(context, &read, &cache, next).await?;
    if is_ready {
        ungate::ungate(context, &uses).await?;
    }
    match seconds_left {
        Some(left) if left <= 0 => delete_idle(context, key, &written).await,
        left => Ok(requeue(&observed, left.map(|left| Duration::from_secs(left.unsigned_abs())))),
    }
}

/// Returns when the cache is reconciled again; `left` is its remaining idle time.
fn requeue(observed: &Observation<'_>, left: Option<Duration>) -> Requeue {
    let interval = match &observed.children {
        Some(Err(_)) => return Requeue::WithBackoff,
        Some(Ok((Ensured::Blocked { .. }, _, _)) | Ok((_, Claim::Terminating, _))) => BLOCKED_INTERVAL,
        Some(Ok((_, _, progress))) => match &progress.condition {
            Some(condition) if condition.changes => PROGRESS_INTERVAL,
            Some(_) => NODES_INTERVAL,
            None => RESYNC,
        },
        None => RESYNC,
    };
    Requeue::After(left.map_or(interval, |left| left.min(interval)))
}

fn invalid(key: &Key, cache: &CacheBackend) -> Option<String> {
    let engine = |()| engine_of(&cache.spec).map_or(Ok(()), |engine| engine.validate(cache));
    validate(&key.name, &cache.spec).and_then(engine).err()
}

/// Parses the object; publishes a warning if its spec cannot be read.
async fn parse(context: &Context, read: &Value) -> Option<CacheBackend> {
    match serde_json::from_value::<CacheBackend>(read.clone()) {
        Ok(cache) => Some(cache),
        Err(first) => {
            // The spec counts even if another program wrote an unknown status.
            let mut bare = read.clone();
            bare["status"] = Value::Null;
            let cache = serde_json::from_value(bare);
            if cache.is_err() {
                context.events.warning(read, "InvalidSpec", &format!("the spec cannot be read: {first}")).await;
            }
            cache.ok()
        }
    }
}

async fn add_finalizer(context: &Context, key: &Key, read: &Value) -> ApiResult<()> {
    let mut finalizers = items(read, "/metadata/finalizers").to_vec();
    finalizers.push(json!(FINALIZER));
    let version = text(read, "/metadata/resourceVersion");
    let change = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    context.api.merge(&CACHE_BACKENDS.object_path(Some(&key.namespace), &key.name), &change).await.map(drop)
}

/// Writes a changed status, and publishes an event for a new state; returns the written object.
///
/// # Errors
/// Conflict when the object changed since it was read.
pub(crate) async fn write_status(
    context: &Context,
    read: &Value,
    cache: &CacheBackend,
    next: CacheBackendStatus,
) -> ApiResult<Value> {
    let old = cache.status.clone().unwrap_or_default();
    if Some(&next) == cache.status.as_ref() {
        return Ok(read.clone());
    }
    let mut object = read.clone();
    object["status"] = serde_json::to_value(&next).unwrap_or_default();
    let path = CACHE_BACKENDS.object_path(Some(text(read, "/metadata/namespace")), text(read, "/metadata/name"));
    let written = context.api.replace(&format!("{path}/status"), &object).await?;
    if (old.cache_status, &old.reason) != (next.cache_status, &next.reason) {
        let (reason, message) = (next.reason.unwrap_or_default(), next.message.unwrap_or_default());
        tracing::info!(cache = path, state = ?next.cache_status, reason, message, "a cache has a new state");
        match next.cache_status {
            Some(CacheStatus::CacheFailed) => context.events.warning(read, &reason, &message).await,
            _ => context.events.normal(read, &reason, &message).await,
        }
    }
    let conflicts = |s: &CacheBackendStatus| s.condition("SpecConflict").is_some();
    if let Some(conflict) = next.conditions.iter().find(|c| c.type_ == "SpecConflict" && !conflicts(&old)) {
        context.events.warning(read, "SpecConflict", &conflict.message).await;
    }
    Ok(written)
}

/// Deletes a cache after its idle time, unless it changed since it was read or has a user by now.
async fn delete_idle(context: &Context, key: &Key, written: &Value) -> ApiResult<Requeue> {
    if !finalize::list_uses(context, key).await?.is_empty() {
        return Ok(Requeue::After(BLOCKED_INTERVAL));
    }
    let (uid, version) = (text(written, "/metadata/uid"), text(written, "/metadata/resourceVersion"));
    context.api.delete(&CACHE_BACKENDS.object_path(Some(&key.namespace), &key.name), uid, Some(version)).await?;
    context
        .events
        .normal(written, "IdleTimeOver", "no workload used the cache for its idle time, so the operator deletes it")
        .await;
    Ok(Requeue::OnChange)
}
