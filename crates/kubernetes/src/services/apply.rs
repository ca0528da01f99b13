//! Makes one part of a service, or puts it right.
//!
//! Rules: only objects that this very service owns (by uid) are changed; nothing is built on an object that is being
//! deleted; a part is written by server-side apply when its description changed, or when something else changed it.

use std::time::Duration;

use forebay_core::Ticks;
use serde_json::{Value, json};

use super::Context;
use super::parts::{Part, WRITTEN};
use crate::cluster::Key;
use crate::cluster::objects::{Answer, FOREBAY_SERVICES, is_going, items, text};
use crate::engines::drive::covers;

/// How often a part is put right that something else changes again and again.
const RIGHT_AGAIN: Duration = Duration::from_secs(60);

/// What came of a part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Applied {
    /// It is there, as described.
    There(Value),
    /// An object of that name goes away first.
    Waits(String),
    /// Another owner has an object of that name.
    Taken(String),
}

/// Makes the part, or puts it right.
///
/// # Errors
/// When the API refuses, or does not answer.
pub(crate) async fn apply(context: &Context, service: (&Key, &str), part: &Part, now: Ticks) -> Answer<Applied> {
    let (key, uid) = service;
    let (path, what) = (part.kind.one(Some(&key.namespace), &part.name), format!("{} {}", part.kind.kind, part.name));
    let place = Key::new(key.namespace.clone(), part.name.clone());
    let found = match context.store.get(part.kind, &place) {
        Some(found) => Some(found),
        // An object without the label is not watched.
        None => context.objects.find(&path).await?,
    };
    let mut body = part.marked();
    if let Some(found) = found {
        let owner = owner(&found, &key.name);
        if is_going(&found) || owner.is_some_and(|owner| owner != uid) {
            return Ok(Applied::Waits(format!("{what} of an earlier service is still being deleted")));
        }
        if owner.is_none() {
            let message =
                format!("{what} is there, and was not made for this service: delete it, or choose another name");
            return Ok(Applied::Taken(message));
        }
        let is_new = mark(&found) != mark(&body) || replicas(&found) != replicas(&body);
        if !is_new && (covers(&found, &described(&body)) || !context.memory.may_right(&path, now, RIGHT_AGAIN)) {
            return Ok(Applied::There(found));
        }
        // An object that was made anew meanwhile has another uid, and is not written.
        body["metadata"]["uid"] = json!(text(&found, "/metadata/uid"));
    }
    let written = context.objects.apply(&path, &body).await?;
    context.store.learn(part.kind, &written);
    Ok(Applied::There(written))
}

/// The description without what is compared in another way.
fn described(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(meta) = body["metadata"].as_object_mut() {
        meta.remove("ownerReferences");
    }
    body
}

/// The uid of the service of this name that owns an object.
fn owner<'a>(object: &'a Value, service: &str) -> Option<&'a str> {
    let mut owners = items(object, "/metadata/ownerReferences").iter();
    let is_service = |o: &&Value| text(o, "/kind") == FOREBAY_SERVICES.kind && text(o, "/name") == service;
    owners.find(is_service).map(|o| text(o, "/uid"))
}

fn mark(object: &Value) -> &str {
    let annotations = object.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(WRITTEN)).and_then(Value::as_str).unwrap_or_default()
}

fn replicas(object: &Value) -> Option<&Value> {
    object.pointer("/spec/replicas")
}

/// Whether this very service owns an object.
pub(crate) fn is_of(object: &Value, key: &Key, uid: &str) -> bool {
    owner(object, &key.name) == Some(uid)
}
