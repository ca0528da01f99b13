//! One look at a cache: what is there is read, what should be there is made, told, or removed.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::removal::{self, FINALIZER};
use super::status::{self, Observation};
use super::{Context, inline, release};
use crate::api::validate::validate;
use crate::api::{CacheBackend, CacheBackendStatus, CacheStatus};
use crate::cluster::Key;
use crate::cluster::meter::METER;
use crate::cluster::objects::{Answer, CACHE_BACKENDS, is_going, items, text};
use crate::cluster::queue::Next;
use crate::engines::drive::{self, Claim, Ensured};
use crate::engines::{Progress, engine_of};

/// How often is looked at a cache of which nothing changes: a watch tells earlier.
const AGAIN: Duration = Duration::from_secs(300);
/// How often is looked at a cache that waits for something that goes away.
const WAITS_AGAIN: Duration = Duration::from_secs(2);

/// Looks at a cache.
///
/// # Errors
/// When the API refuses, or does not answer, or something changed meanwhile.
pub(crate) async fn look(context: &Context, key: &Key) -> Answer<Next> {
    let uses = context.index.of(key);
    let Some(read) = context.objects.find(&CACHE_BACKENDS.one(Some(&key.namespace), &key.name)).await? else {
        context.index.forget(key);
        METER.state("cache", key, None);
        return if uses.is_empty() { Ok(Next::Settled) } else { inline::make(context, key, &uses).await };
    };
    context.index.know(key.clone());
    let Some(cache) = parsed(context, &read).await else { return Ok(Next::After(AGAIN)) };
    if is_going(&read) {
        return removal::go_on(context, key, &read, &cache).await;
    }
    if !items(&read, "/metadata/finalizers").iter().any(|f| f == FINALIZER) {
        // The change is told by the watch, and then looked at.
        hold(context, key, &read).await?;
        return Ok(Next::Settled);
    }
    if cache.status.as_ref().and_then(|s| s.cache_status).is_none() {
        let first = Observation { now: Timestamp::now(), uses: &uses, invalid: None, made: None };
        write(context, &read, &cache, status::next(&cache, &first)).await?;
        return Ok(Next::Settled);
    }
    let invalid = invalid(key, &cache);
    let made = match (&invalid, engine_of(&cache.spec)) {
        (None, Some(engine)) => Some(match drive::ensure(&context.objects, engine, &cache).await {
            Err(failure) => Err(failure),
            Ok(waits @ Ensured::Waits { .. }) => Ok((waits, Claim::Absent, Progress::default())),
            Ok(made) => {
                let (claim, progress) = drive::observe(&context.objects, engine, &cache).await?;
                Ok((made, claim, progress))
            }
        }),
        _ => None,
    };
    let waits =
        matches!(&made, Some(Ok((Ensured::Waits { .. }, _, _)))) || matches!(&made, Some(Ok((_, Claim::Going, _))));
    let failed = matches!(&made, Some(Err(_)));
    let seen = Observation { now: Timestamp::now(), uses: &uses, invalid, made };
    let next = status::next(&cache, &seen);
    let is_ready = status::is_ready(&cache, &next).is_ok();
    let left = status::seconds_left(&cache, &next, seen.now);
    let state = serde_json::to_value(next.cache_status).unwrap_or_default();
    METER.state("cache", key, Some(state.as_str().unwrap_or("Unknown")));
    let written = write(context, &read, &cache, next).await?;
    if is_ready {
        release::release(context, &uses).await?;
    }
    match left {
        Some(left) if left <= 0 => expire(context, key, &written).await,
        _ if failed => Ok(Next::Failed),
        Some(left) => Ok(Next::After(Duration::from_secs(left.unsigned_abs()).min(AGAIN))),
        None => Ok(Next::After(if waits { WAITS_AGAIN } else { AGAIN })),
    }
}

fn invalid(key: &Key, cache: &CacheBackend) -> Option<String> {
    let engine = |()| engine_of(&cache.spec).map_or(Ok(()), |engine| engine.validate(cache));
    validate(&key.name, &cache.spec).and_then(engine).err()
}

/// Reads the object; says so to its owner where nobody could.
async fn parsed(context: &Context, read: &Value) -> Option<CacheBackend> {
    match serde_json::from_value::<CacheBackend>(read.clone()) {
        Ok(cache) => Some(cache),
        Err(first) => {
            // A status that another program wrote is no reason not to look at the spec.
            let mut bare = read.clone();
            bare["status"] = Value::Null;
            let cache = serde_json::from_value(bare);
            if cache.is_err() {
                context.events.warn(read, "InvalidSpec", &format!("the spec cannot be read: {first}")).await;
            }
            cache.ok()
        }
    }
}

async fn hold(context: &Context, key: &Key, read: &Value) -> Answer<()> {
    let mut finalizers = items(read, "/metadata/finalizers").to_vec();
    finalizers.push(json!(FINALIZER));
    let version = text(read, "/metadata/resourceVersion");
    let change = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    context.objects.merge(&CACHE_BACKENDS.one(Some(&key.namespace), &key.name), &change).await.map(drop)
}

/// Writes a status that changed, and tells of a new state; returns the object as it is then.
///
/// # Errors
/// Conflict when the object changed since it was read.
pub(crate) async fn write(
    context: &Context,
    read: &Value,
    cache: &CacheBackend,
    next: CacheBackendStatus,
) -> Answer<Value> {
    let old = cache.status.clone().unwrap_or_default();
    if Some(&next) == cache.status.as_ref() {
        return Ok(read.clone());
    }
    let mut object = read.clone();
    object["status"] = serde_json::to_value(&next).unwrap_or_default();
    let path = CACHE_BACKENDS.one(Some(text(read, "/metadata/namespace")), text(read, "/metadata/name"));
    let written = context.objects.replace(&format!("{path}/status"), &object).await?;
    if (old.cache_status, &old.reason) != (next.cache_status, &next.reason) {
        let (reason, message) = (next.reason.unwrap_or_default(), next.message.unwrap_or_default());
        tracing::info!(cache = path, state = ?next.cache_status, reason, message, "a cache has a new state");
        match next.cache_status {
            Some(CacheStatus::CacheFailed) => context.events.warn(read, &reason, &message).await,
            _ => context.events.say(read, &reason, &message).await,
        }
    }
    let conflicts = |s: &CacheBackendStatus| s.condition("SpecConflict").is_some();
    if let Some(conflict) = next.conditions.iter().find(|c| c.type_ == "SpecConflict" && !conflicts(&old)) {
        context.events.warn(read, "SpecConflict", &conflict.message).await;
    }
    Ok(written)
}

/// Deletes a cache that nobody used for long enough, if it still is what was read and still nobody does.
async fn expire(context: &Context, key: &Key, written: &Value) -> Answer<Next> {
    if !removal::fresh(context, key).await?.is_empty() {
        return Ok(Next::After(WAITS_AGAIN));
    }
    let (uid, version) = (text(written, "/metadata/uid"), text(written, "/metadata/resourceVersion"));
    context.objects.delete(&CACHE_BACKENDS.one(Some(&key.namespace), &key.name), uid, Some(version)).await?;
    context.events.say(written, "IdleTimeOver", "nobody used the cache for its idle time, so it is deleted").await;
    Ok(Next::Settled)
}
