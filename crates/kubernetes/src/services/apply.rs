//! Applies one manifest of a service.
//!
//! Rules: the operator changes only objects that the service owns, by uid. It waits for a terminating object of the
//! same name. It applies a manifest when the manifest changed, or when the observed object drifted from it.

use std::time::Duration;

use forebay_core::Ticks;
use serde_json::{Value, json};

use super::Context;
use super::manifests::{APPLIED_HASH, Manifest};
use crate::cluster::Key;
use crate::cluster::objects::{ApiResult, FOREBAY_SERVICES, is_terminating, items, text};
use crate::engines::children::matches_desired;

/// Shortest time between two corrections of drift of one object, so that two controllers do not fight over it.
const DRIFT_INTERVAL: Duration = Duration::from_secs(60);

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Applied {
    /// The object exists, as desired.
    InSync(Value),
    /// An object of that name is terminating.
    Blocked(String),
    /// An object of that name has another owner.
    NotOwned(String),
}

/// Applies a manifest unless the object is in sync.
///
/// # Errors
/// When the API rejects a request, or does not answer.
pub(crate) async fn apply(
    context: &Context,
    service: (&Key, &str),
    manifest: &Manifest,
    now: Ticks,
) -> ApiResult<Applied> {
    let (key, uid) = service;
    let (path, what) = (
        manifest.kind.object_path(Some(&key.namespace), &manifest.name),
        format!("{} {}", manifest.kind.kind, manifest.name),
    );
    let name = Key::new(key.namespace.clone(), manifest.name.clone());
    let found = match context.store.get(manifest.kind, &name) {
        Some(found) => Some(found),
        // The watch selects by label, so the store lacks an object without it.
        None => context.api.find(&path).await?,
    };
    let mut body = manifest.with_hash();
    if let Some(found) = found {
        let owner = owner(&found, &key.name);
        if is_terminating(&found) || owner.is_some_and(|owner| owner != uid) {
            return Ok(Applied::Blocked(format!("{what} of an earlier service is still being deleted")));
        }
        if owner.is_none() {
            let message =
                format!("{what} is there, and was not made for this service: delete it, or choose another name");
            return Ok(Applied::NotOwned(message));
        }
        let is_changed = applied_hash(&found) != applied_hash(&body) || replicas(&found) != replicas(&body);
        if !is_changed
            && (matches_desired(&found, &compared_fields(&body))
                || !context.memory.may_correct(&path, now, DRIFT_INTERVAL))
        {
            return Ok(Applied::InSync(found));
        }
        // The uid is a precondition: an object that was created again meanwhile is not changed.
        body["metadata"]["uid"] = json!(text(&found, "/metadata/uid"));
    }
    let written = context.api.apply(&path, &body).await?;
    context.store.put_newer(manifest.kind, &written);
    Ok(Applied::InSync(written))
}

/// The manifest without owner references, which are compared by uid.
fn compared_fields(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(meta) = body["metadata"].as_object_mut() {
        meta.remove("ownerReferences");
    }
    body
}

/// The uid in the owner reference to a service of this name.
fn owner<'a>(object: &'a Value, service: &str) -> Option<&'a str> {
    let mut owners = items(object, "/metadata/ownerReferences").iter();
    let is_service = |o: &&Value| text(o, "/kind") == FOREBAY_SERVICES.kind && text(o, "/name") == service;
    owners.find(is_service).map(|o| text(o, "/uid"))
}

fn applied_hash(object: &Value) -> &str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(APPLIED_HASH)).and_then(Value::as_str).unwrap_or_default()
}

fn replicas(object: &Value) -> Option<&Value> {
    object.pointer("/spec/replicas")
}

/// Whether the service with this uid owns an object.
pub(crate) fn is_owned_by(object: &Value, key: &Key, uid: &str) -> bool {
    owner(object, &key.name) == Some(uid)
}
