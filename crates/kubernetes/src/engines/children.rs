//! Creates, observes and deletes the children of a cache.
//!
//! Rules: the operator changes and deletes only objects that the cache owns, by uid. It waits for a terminating object
//! of the same name. A deletion has the uid that was read as a precondition. A child that another client deleted is
//! created again.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::node_figures::NodeFigures;
use super::prefetch_progress::CacheNodes;
use super::{CACHE_UID, Child, ENGINES, Engine, EngineSettings, Progress};
use crate::api::CacheBackend;
use crate::cluster::Key;
use crate::cluster::objects::{
    ApiClient, ApiError, ApiResult, CACHE_BACKENDS, CLAIMS, PODS, VOLUMES, is_terminating, items, text,
};

/// Time that a terminating claim may wait for finished pods before the operator removes its protection.
const CLAIM_GRACE_SECONDS: i64 = 30;
/// The finalizer by which Kubernetes keeps a claim while pods mount it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The state of a cache's children after [`ensure`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ensured {
    /// All children exist. `drift` is a message about a difference in an immutable field.
    Exists { drift: Option<String> },
    /// A terminating or changing object blocks a child.
    Blocked { reason: &'static str, message: String },
}

/// A fault that prevents a child, for the status of the cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The observed claim with the cache's name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Claim {
    Absent,
    Terminating,
    NotOwned,
    Pending,
    Bound,
}

/// The cache as the owner of its children.
struct Owner<'a> {
    name: &'a str,
    uid: &'a str,
}

impl<'a> Owner<'a> {
    fn of(cache: &'a CacheBackend) -> Self {
        let name = cache.metadata.name.as_deref().unwrap_or_default();
        Self { name, uid: cache.metadata.uid.as_deref().unwrap_or_default() }
    }

    fn owns(&self, object: &Value) -> bool {
        label(object) == self.uid || self.references(object).any(|uid| uid == self.uid)
    }

    /// Whether an earlier cache of the same name owned the object.
    fn owned_by_predecessor(&self, object: &Value) -> bool {
        let is_volume_of_another = text(object, "/metadata/namespace").is_empty() && !label(object).is_empty();
        is_volume_of_another || self.references(object).any(|uid| uid != self.uid)
    }

    fn references<'o>(&self, object: &'o Value) -> impl Iterator<Item = &'o str> {
        let named = |o: &&Value| text(o, "/kind") == CACHE_BACKENDS.kind && text(o, "/name") == self.name;
        items(object, "/metadata/ownerReferences")
            .iter()
            .filter(named)
            .map(|o| text(o, "/uid"))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

fn label(object: &Value) -> &str {
    object
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(CACHE_UID))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Creates missing children, and corrects the drift of existing ones.
///
/// # Errors
/// A fault that the author of the cache, or an administrator of the cluster, must correct.
pub(crate) async fn ensure(
    api: &ApiClient,
    engine: &dyn Engine,
    cache: &CacheBackend,
    settings: &EngineSettings,
) -> Result<Ensured, Failure> {
    if let Some(prerequisite) = engine.prerequisite()
        && api.find(&prerequisite.path).await.map_err(|error| failure(&error))?.is_none()
    {
        return Err(Failure { reason: "EngineNotInstalled", message: prerequisite.missing.to_owned() });
    }
    let mut all = Ensured::Exists { drift: None };
    for child in engine.children(cache, settings) {
        let ensured = match child.is_wanted {
            true => ensure_child(api, engine, cache, &child).await?,
            false => remove_child(api, cache, &child).await?,
        };
        match ensured {
            Ensured::Exists { drift: None } => {}
            blocked @ Ensured::Blocked { .. } => return Ok(blocked),
            drift @ Ensured::Exists { .. } => all = drift,
        }
    }
    Ok(all)
}

async fn ensure_child(
    api: &ApiClient,
    engine: &dyn Engine,
    cache: &CacheBackend,
    child: &Child,
) -> Result<Ensured, Failure> {
    let (owner, what) = (Owner::of(cache), format!("{} {}", child.kind.kind, child.name));
    let blocked = |reason, message| Ok(Ensured::Blocked { reason, message });
    let found = api.find(&child.path()).await.map_err(|error| failure(&error))?;
    let Some(found) = found else {
        return match api.create(&child.collection_path(), &manifest(cache, child)).await {
            Ok(_) => Ok(Ensured::Exists { drift: None }),
            Err(error) if error.is_not_found() => {
                let message = format!("{} ({} is no kind here)", engine.not_installed(), child.kind.kind);
                Err(Failure { reason: "EngineNotInstalled", message })
            }
            Err(error) if error.is_conflict() => {
                blocked("ChildChanges", format!("{what} was made by another meanwhile"))
            }
            Err(error) if error.is_namespace_terminating() => {
                blocked("NamespaceTerminating", "the namespace is being deleted, so nothing is made in it".to_owned())
            }
            Err(error) => Err(failure(&error)),
        };
    };
    if is_terminating(&found) {
        return blocked("ChildTerminating", format!("{what} of an earlier cache is still being deleted"));
    }
    if !owner.owns(&found) {
        if !owner.owned_by_predecessor(&found) {
            let message =
                format!("{what} is there, and was not made for this cache: delete it, or choose another name");
            return Err(Failure { reason: "ChildNotOwned", message });
        }
        api.delete(&child.path(), text(&found, "/metadata/uid"), None).await.map_err(|error| failure(&error))?;
        return blocked("ChildTerminating", format!("{what} of an earlier cache is being deleted"));
    }
    if child.kind == VOLUMES && text(&found, "/status/phase") == "Released" {
        // A released volume binds to no other claim.
        api.delete(&child.path(), text(&found, "/metadata/uid"), None).await.map_err(|error| failure(&error))?;
        return blocked("ChildTerminating", format!("{what} lost its claim, and is made again"));
    }
    let desired = desired(&found, child);
    let is_exact = |at: &&str| is_same(found["spec"].pointer(at), desired.pointer(at));
    if matches_desired(&found["spec"], &without_empty(&desired)) && child.exact.iter().all(is_exact) {
        return Ok(Ensured::Exists { drift: None });
    }
    if !child.can_change {
        let drift =
            format!("{what} cannot be changed to what the spec says by now: delete the cache and make it again");
        return Ok(Ensured::Exists { drift: Some(drift) });
    }
    let version = text(&found, "/metadata/resourceVersion");
    let change = json!({"metadata": {"resourceVersion": version}, "spec": desired});
    match api.merge(&child.path(), &change).await {
        Ok(_) => Ok(Ensured::Exists { drift: None }),
        Err(error) if error.is_conflict() => {
            blocked("ChildChanges", format!("{what} was changed by another meanwhile"))
        }
        Err(error) => Err(failure(&error)),
    }
}

/// Returns the desired spec of an existing object, as a merge patch: null removes a field.
fn desired(found: &Value, child: &Child) -> Value {
    let mut desired = child.spec.clone();
    let has_ready_pods = found.pointer("/status/readyReplicas").and_then(Value::as_u64).unwrap_or(0) > 0;
    if let Some(at) = child.kept.filter(|_| has_ready_pods)
        && let (Some(desired), Some(found)) = (desired.pointer_mut(at), found["spec"].pointer(at))
    {
        desired.clone_from(found);
    }
    for at in child.exact {
        if let (Some(Value::Object(desired)), Some(Value::Object(found))) =
            (desired.pointer_mut(at), found["spec"].pointer(at))
        {
            for key in found.keys().filter(|key| !desired.contains_key(*key)).cloned().collect::<Vec<_>>() {
                desired.insert(key, Value::Null);
            }
        }
    }
    desired
}

/// Whether two fields have the same content. An absent field is like an empty one.
fn is_same(found: Option<&Value>, desired: Option<&Value>) -> bool {
    let is_empty = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    found.filter(|value| !is_empty(value)) == desired.filter(|value| !is_empty(value))
}

/// Removes empty fields and nulls, which the API server does not store.
fn without_empty(spec: &Value) -> Value {
    match spec {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !is_same(None, Some(value)));
            kept.map(|(name, value)| (name.clone(), without_empty(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

/// Deletes a child that the spec does not want any more. An object of another owner stays.
async fn remove_child(api: &ApiClient, cache: &CacheBackend, child: &Child) -> Result<Ensured, Failure> {
    let found = api.find(&child.path()).await.map_err(|error| failure(&error))?;
    if let Some(found) = found.filter(|found| Owner::of(cache).owns(found) && !is_terminating(found)) {
        let deleted = api.delete(&child.path(), text(&found, "/metadata/uid"), None).await;
        deleted.map_err(|error| failure(&error))?;
    }
    Ok(Ensured::Exists { drift: None })
}

fn manifest(cache: &CacheBackend, child: &Child) -> Value {
    let owner = Owner::of(cache);
    let mut object = json!({
        "apiVersion": child.kind.api_version(), "kind": child.kind.kind, "spec": child.spec,
        "metadata": {
            "name": child.name,
            "labels": {CACHE_UID: owner.uid, "app.kubernetes.io/managed-by": "forebay-operator"},
        },
    });
    if let Some(namespace) = &child.namespace {
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": CACHE_BACKENDS.api_version(), "kind": CACHE_BACKENDS.kind, "name": owner.name, "uid": owner.uid,
            "controller": true,
        }]);
    }
    object
}

/// Whether an object has all desired fields. Other clients may add fields.
pub(crate) fn matches_desired(actual: &Value, desired: &Value) -> bool {
    match (actual, desired) {
        (Value::Object(actual), Value::Object(desired)) => {
            desired.iter().all(|(field, value)| actual.get(field).is_some_and(|actual| matches_desired(actual, value)))
        }
        (Value::Array(actual), Value::Array(desired)) => {
            actual.len() == desired.len()
                && actual.iter().zip(desired).all(|(actual, value)| matches_desired(actual, value))
        }
        // The API normalizes the notation of a quantity.
        (Value::String(actual), Value::String(desired)) => {
            actual == desired || matches!((quantity(actual), quantity(desired)), (Some(a), Some(b)) if a == b)
        }
        _ => actual == desired,
    }
}

/// The value of a quantity: 0.5 for `500m`.
fn quantity(text: &str) -> Option<f64> {
    let thousandths = text.strip_suffix('m').and_then(crate::api::validate::bytes);
    thousandths.map(|number| number / 1000.0).or_else(|| crate::api::validate::bytes(text))
}

fn failure(error: &ApiError) -> Failure {
    let reason = match error.code {
        0 | 429 | 500.. => "ApiUnavailable",
        401 | 403 => "Forbidden",
        _ => "Refused",
    };
    let hint = if reason == "Forbidden" { "; deploy/kubernetes/rbac.yaml has what the operator needs" } else { "" };
    Failure { reason, message: format!("{error}{hint}") }
}

/// Reads the claim and the progress of the engine.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn observe(
    api: &ApiClient,
    engine: &dyn Engine,
    cache: &CacheBackend,
    settings: &EngineSettings,
    figures: &NodeFigures,
) -> ApiResult<(Claim, Progress)> {
    let owner = Owner::of(cache);
    let namespace = cache.metadata.namespace.as_deref();
    let claim = match api.find(&CLAIMS.object_path(namespace, owner.name)).await? {
        None => Claim::Absent,
        Some(claim) if is_terminating(&claim) => Claim::Terminating,
        Some(claim) if !engine.is_claim(owner.uid, &claim) => Claim::NotOwned,
        Some(claim) if text(&claim, "/status/phase") == "Bound" => Claim::Bound,
        Some(_) => Claim::Pending,
    };
    let mut children = Vec::new();
    for child in engine.children(cache, settings).into_iter().filter(|child| child.is_wanted) {
        children.extend(api.find(&child.path()).await?);
    }
    let nodes = match engine.cache_nodes(cache) {
        0 => CacheNodes::default(),
        _ => figures.of(api, &Key::new(namespace.unwrap_or_default(), owner.name)).await?,
    };
    Ok((claim, engine.progress(cache, &children, &nodes)))
}

/// Deletes the children of a cache. Returns the kind and the name of each child that still exists.
///
/// # Errors
/// When the API rejects a request, or does not answer. A retry is safe.
pub(crate) async fn tear_down(
    api: &ApiClient,
    cache: &CacheBackend,
    settings: &EngineSettings,
    now: Timestamp,
) -> ApiResult<Vec<String>> {
    let owner = Owner::of(cache);
    let mut left = Vec::new();
    // The children of the current spec, and the children that another engine may have made before the spec changed.
    for engine in ENGINES {
        let mut of_engine = cache.clone();
        if super::engine_of(&cache.spec).map(Engine::name) != Some(engine.name()) {
            of_engine.spec.cache_engine = Some(default_spec_of(engine.name()));
        }
        for child in engine.children(&of_engine, settings).into_iter().rev() {
            if child.kind == CLAIMS {
                continue;
            }
            let Some(found) = api.find(&child.path()).await? else { continue };
            if !owner.owns(&found) {
                continue;
            }
            left.push(format!("{} {}", child.kind.kind, child.name));
            if !is_terminating(&found) {
                api.delete(&child.path(), text(&found, "/metadata/uid"), None).await?;
            }
        }
    }
    let is_last = left.iter().all(|what| what.starts_with("PersistentVolume "));
    if let Some(claim) = delete_claim(api, cache, is_last, now).await? {
        left.push(claim);
    }
    Ok(left)
}

/// A spec with the engine's most common kinds of children.
fn default_spec_of(engine: &str) -> crate::api::Engine {
    let text = if engine == "fluid" { r#"{"fluid":{"alluxioRuntime":{}}}"# } else { r#"{"forebay":{}}"# };
    serde_json::from_str(text).expect("it is an engine")
}

/// Deletes the claim once no engine would create it again. Removes its protection when only finished pods mount it.
async fn delete_claim(
    api: &ApiClient,
    cache: &CacheBackend,
    is_last: bool,
    now: Timestamp,
) -> ApiResult<Option<String>> {
    let owner = Owner::of(cache);
    let namespace = cache.metadata.namespace.as_deref();
    let path = CLAIMS.object_path(namespace, owner.name);
    let Some(claim) = api.find(&path).await? else { return Ok(None) };
    let is_ours = ENGINES.iter().any(|engine| engine.is_claim(owner.uid, &claim));
    if !is_ours {
        return Ok(None);
    }
    if !is_terminating(&claim) {
        if is_last {
            api.delete(&path, text(&claim, "/metadata/uid"), None).await?;
        }
    } else if let Some(at) = items(&claim, "/metadata/finalizers").iter().position(|f| f == PROTECTION)
        && seconds_since(text(&claim, "/metadata/deletionTimestamp"), now) >= CLAIM_GRACE_SECONDS
        && only_finished_pods(api, namespace, owner.name).await?
    {
        let at = format!("/metadata/finalizers/{at}");
        let operations = json!([{"op": "test", "path": at, "value": PROTECTION}, {"op": "remove", "path": at}]);
        match api.patch(&path, &operations).await {
            Err(error) if error.code == 0 => return Err(error),
            _ => {}
        }
    }
    Ok(Some(format!("PersistentVolumeClaim {}", owner.name)))
}

async fn only_finished_pods(api: &ApiClient, namespace: Option<&str>, claim: &str) -> ApiResult<bool> {
    let pods = api.list(&PODS.collection_path(namespace), "").await?;
    let has = |pod: &&Value| {
        items(pod, "/spec/volumes").iter().any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim)
    };
    Ok(pods.iter().filter(has).all(|pod| matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")))
}

/// Seconds since a timestamp of the API; 0 if it is invalid or in the future.
pub(crate) fn seconds_since(time: &str, now: Timestamp) -> i64 {
    time.parse::<Timestamp>().map_or(0, |then| now.as_second().saturating_sub(then.as_second()).max(0))
}
