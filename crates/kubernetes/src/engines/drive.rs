//! Makes, observes and removes what an engine describes.
//!
//! Rules: nothing is changed or removed that is not ours (by owner and uid); nothing is built on an object that is
//! being deleted; each deletion names the uid that was read; an object that vanished is made again.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CACHE_UID, Child, ENGINES, Engine, Progress};
use crate::api::CacheBackend;
use crate::cluster::objects::{Answer, CACHE_BACKENDS, CLAIMS, Objects, PODS, Refused, VOLUMES, is_going, items, text};

/// How long a claim may wait for finished pods before the operator ends its protection.
const CLAIM_GRACE_SECONDS: i64 = 30;
/// What Kubernetes writes on a claim so that it stays while pods have it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// What came of making a cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ensured {
    /// All objects are there, as described; or one differs in what cannot be changed.
    Made { outdated: Option<String> },
    /// Something goes away first.
    Waits { reason: &'static str, message: String },
}

/// Why a cache cannot be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The claim with the cache's name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Claim {
    Absent,
    Going,
    Stranger,
    Pending,
    Bound,
}

/// The object's uid, and who owns it.
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

    /// Whether a cache of the same name owned it, which is gone.
    fn inherits(&self, object: &Value) -> bool {
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

/// Makes what the engine describes, as far as it is not there.
///
/// # Errors
/// What the cache's owner, or the cluster's, must do something about.
pub(crate) async fn ensure(objects: &Objects, engine: &dyn Engine, cache: &CacheBackend) -> Result<Ensured, Failure> {
    if let Some(need) = engine.needs()
        && objects.find(&need.path).await.map_err(|refused| failure(&refused))?.is_none()
    {
        return Err(Failure { reason: "EngineNotInstalled", message: need.missing.to_owned() });
    }
    let mut all = Ensured::Made { outdated: None };
    for child in engine.children(cache) {
        match ensure_child(objects, engine, cache, &child).await? {
            Ensured::Made { outdated: None } => {}
            waits @ Ensured::Waits { .. } => return Ok(waits),
            outdated @ Ensured::Made { .. } => all = outdated,
        }
    }
    Ok(all)
}

async fn ensure_child(
    objects: &Objects,
    engine: &dyn Engine,
    cache: &CacheBackend,
    child: &Child,
) -> Result<Ensured, Failure> {
    let (owner, what) = (Owner::of(cache), format!("{} {}", child.kind.kind, child.name));
    let waits = |reason, message| Ok(Ensured::Waits { reason, message });
    let found = objects.find(&child.path()).await.map_err(|refused| failure(&refused))?;
    let Some(found) = found else {
        return match objects.create(&child.all(), &described(cache, child)).await {
            Ok(_) => Ok(Ensured::Made { outdated: None }),
            Err(refused) if refused.is_not_found() => {
                let message = format!("{} ({} is no kind here)", engine.not_installed(), child.kind.kind);
                Err(Failure { reason: "EngineNotInstalled", message })
            }
            Err(refused) if refused.is_conflict() => {
                waits("ChildChanges", format!("{what} was made by another meanwhile"))
            }
            Err(refused) if refused.is_of_a_namespace_that_goes() => {
                waits("NamespaceTerminating", "the namespace is being deleted, so nothing is made in it".to_owned())
            }
            Err(refused) => Err(failure(&refused)),
        };
    };
    if is_going(&found) {
        return waits("ChildTerminating", format!("{what} of an earlier cache is still being deleted"));
    }
    if !owner.owns(&found) {
        if !owner.inherits(&found) {
            let message =
                format!("{what} is there, and was not made for this cache: delete it, or choose another name");
            return Err(Failure { reason: "ChildNotOwned", message });
        }
        objects
            .delete(&child.path(), text(&found, "/metadata/uid"), None)
            .await
            .map_err(|refused| failure(&refused))?;
        return waits("ChildTerminating", format!("{what} of an earlier cache is being deleted"));
    }
    if child.kind == VOLUMES && text(&found, "/status/phase") == "Released" {
        // Its claim was deleted, and it takes no other one.
        objects
            .delete(&child.path(), text(&found, "/metadata/uid"), None)
            .await
            .map_err(|refused| failure(&refused))?;
        return waits("ChildTerminating", format!("{what} lost its claim, and is made again"));
    }
    if covers(&found["spec"], &child.spec) {
        return Ok(Ensured::Made { outdated: None });
    }
    if !child.can_change {
        let outdated =
            format!("{what} cannot be changed to what the spec says by now: delete the cache and make it again");
        return Ok(Ensured::Made { outdated: Some(outdated) });
    }
    let version = text(&found, "/metadata/resourceVersion");
    let change = json!({"metadata": {"resourceVersion": version}, "spec": child.spec});
    match objects.merge(&child.path(), &change).await {
        Ok(_) => Ok(Ensured::Made { outdated: None }),
        Err(refused) if refused.is_conflict() => {
            waits("ChildChanges", format!("{what} was changed by another meanwhile"))
        }
        Err(refused) => Err(failure(&refused)),
    }
}

fn described(cache: &CacheBackend, child: &Child) -> Value {
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

/// Whether what is there has all that is described: others may add fields.
pub(crate) fn covers(there: &Value, described: &Value) -> bool {
    match (there, described) {
        (Value::Object(there), Value::Object(described)) => {
            described.iter().all(|(field, value)| there.get(field).is_some_and(|there| covers(there, value)))
        }
        (Value::Array(there), Value::Array(described)) => {
            there.len() == described.len() && there.iter().zip(described).all(|(there, value)| covers(there, value))
        }
        // The API writes quantities in its own form, and keeps their value.
        (Value::String(there), Value::String(described)) => {
            there == described || matches!((quantity(there), quantity(described)), (Some(a), Some(b)) if a == b)
        }
        _ => there == described,
    }
}

/// The number that a quantity is: `500m` is a half.
fn quantity(text: &str) -> Option<f64> {
    let thousandths = text.strip_suffix('m').and_then(crate::api::validate::bytes);
    thousandths.map(|number| number / 1000.0).or_else(|| crate::api::validate::bytes(text))
}

fn failure(refused: &Refused) -> Failure {
    let reason = match refused.code {
        0 | 429 | 500.. => "ApiUnavailable",
        401 | 403 => "Forbidden",
        _ => "Refused",
    };
    let hint = if reason == "Forbidden" { "; deploy/kubernetes/rbac.yaml has what the operator needs" } else { "" };
    Failure { reason, message: format!("{refused}{hint}") }
}

/// Looks at the claim, and at how far the engine is.
///
/// # Errors
/// When the API does not answer.
pub(crate) async fn observe(objects: &Objects, engine: &dyn Engine, cache: &CacheBackend) -> Answer<(Claim, Progress)> {
    let owner = Owner::of(cache);
    let namespace = cache.metadata.namespace.as_deref();
    let claim = match objects.find(&CLAIMS.one(namespace, owner.name)).await? {
        None => Claim::Absent,
        Some(claim) if is_going(&claim) => Claim::Going,
        Some(claim) if !engine.is_claim(owner.uid, &claim) => Claim::Stranger,
        Some(claim) if text(&claim, "/status/phase") == "Bound" => Claim::Bound,
        Some(_) => Claim::Pending,
    };
    let mut children = Vec::new();
    for child in engine.children(cache) {
        children.extend(objects.find(&child.path()).await?);
    }
    Ok((claim, engine.progress(&children)))
}

/// Removes what was made for a cache; returns what is still there.
///
/// # Errors
/// When the API refuses or does not answer; to try again is safe.
pub(crate) async fn tear_down(objects: &Objects, cache: &CacheBackend, now: Timestamp) -> Answer<Vec<String>> {
    let owner = Owner::of(cache);
    let mut left = Vec::new();
    // By the spec as it is now, and by what all engines may have made of it before.
    for engine in ENGINES {
        let mut spec_less = cache.clone();
        if super::engine_of(&cache.spec).map(Engine::name) != Some(engine.name()) {
            spec_less.spec.cache_engine = Some(any_of(engine.name()));
        }
        for child in engine.children(&spec_less).into_iter().rev() {
            if child.kind == CLAIMS {
                continue;
            }
            let Some(found) = objects.find(&child.path()).await? else { continue };
            if !owner.owns(&found) {
                continue;
            }
            left.push(format!("{} {}", child.kind.kind, child.name));
            if !is_going(&found) {
                objects.delete(&child.path(), text(&found, "/metadata/uid"), None).await?;
            }
        }
    }
    let is_alone = left.iter().all(|what| what.starts_with("PersistentVolume "));
    if let Some(claim) = claim_left(objects, cache, is_alone, now).await? {
        left.push(claim);
    }
    Ok(left)
}

/// A spec that has the engine's objects, of the kinds that are most common.
fn any_of(engine: &str) -> crate::api::Engine {
    let text = if engine == "fluid" { r#"{"fluid":{"alluxioRuntime":{}}}"# } else { r#"{"forebay":{}}"# };
    serde_json::from_str(text).expect("it is an engine")
}

/// Deletes the claim once nothing makes it again, and ends its protection when only finished pods have it.
async fn claim_left(objects: &Objects, cache: &CacheBackend, is_alone: bool, now: Timestamp) -> Answer<Option<String>> {
    let owner = Owner::of(cache);
    let namespace = cache.metadata.namespace.as_deref();
    let path = CLAIMS.one(namespace, owner.name);
    let Some(claim) = objects.find(&path).await? else { return Ok(None) };
    let is_ours = ENGINES.iter().any(|engine| engine.is_claim(owner.uid, &claim));
    if !is_ours {
        return Ok(None);
    }
    if !is_going(&claim) {
        if is_alone {
            objects.delete(&path, text(&claim, "/metadata/uid"), None).await?;
        }
    } else if let Some(at) = items(&claim, "/metadata/finalizers").iter().position(|f| f == PROTECTION)
        && seconds_since(text(&claim, "/metadata/deletionTimestamp"), now) >= CLAIM_GRACE_SECONDS
        && only_finished_pods(objects, namespace, owner.name).await?
    {
        let at = format!("/metadata/finalizers/{at}");
        let operations = json!([{"op": "test", "path": at, "value": PROTECTION}, {"op": "remove", "path": at}]);
        match objects.patch(&path, &operations).await {
            Err(refused) if refused.code == 0 => return Err(refused),
            _ => {}
        }
    }
    Ok(Some(format!("PersistentVolumeClaim {}", owner.name)))
}

async fn only_finished_pods(objects: &Objects, namespace: Option<&str>, claim: &str) -> Answer<bool> {
    let pods = objects.list(&PODS.all(namespace), "").await?;
    let has = |pod: &&Value| {
        items(pod, "/spec/volumes").iter().any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim)
    };
    Ok(pods.iter().filter(has).all(|pod| matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")))
}

/// Seconds since a time of the API; 0 where it is none, or in the future.
pub(crate) fn seconds_since(time: &str, now: Timestamp) -> i64 {
    time.parse::<Timestamp>().map_or(0, |then| now.as_second().saturating_sub(then.as_second()).max(0))
}
