//! What changes in a cluster: one task for each kind, which may not be installed (yet, or any more).
//!
//! kube's watcher lists, watches, and lists again when the API lost its place; here its events become [`Change`]s. A
//! kind that is not installed has no objects, and is looked for every [`INSTALLED_AGAIN`].

use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event};
use serde_json::Value;

use super::objects::{Kind, Objects};

/// How often a kind is looked for that is not installed.
const INSTALLED_AGAIN: Duration = Duration::from_secs(10);

/// What changed.
#[derive(Debug)]
pub(crate) enum Change {
    /// An object is there, new or changed.
    There(Value),
    /// An object is gone.
    Gone(Value),
    /// A list of all objects begins.
    ListBegins,
    /// All objects were told since the list began; others are gone.
    ListEnds,
}

/// Tells what changes, for ever.
pub(crate) async fn watch(objects: Objects, kind: Kind, labels: Option<String>, mut tell: impl FnMut(Kind, Change)) {
    let config = labels.map_or_else(Config::default, |labels| Config::default().labels(&labels));
    loop {
        let api: Api<DynamicObject> = Api::all_with(objects.client.clone(), &kind.resource());
        let mut events = std::pin::pin!(watcher::watcher(api, config.clone()).default_backoff());
        let mut is_told = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    is_told = false;
                    tell(kind, change(event));
                }
                Err(error) if is_missing(&error) => {
                    tell(kind, Change::ListBegins);
                    tell(kind, Change::ListEnds);
                    break;
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(
                            kind = kind.kind,
                            error = forebay_proto::innermost(&error),
                            "changes are not seen"
                        );
                    }
                }
            }
        }
        tokio::time::sleep(INSTALLED_AGAIN).await;
    }
}

fn change(event: Event<DynamicObject>) -> Change {
    let json = |object| serde_json::to_value::<DynamicObject>(object).unwrap_or_default();
    match event {
        Event::Apply(object) | Event::InitApply(object) => Change::There(json(object)),
        Event::Delete(object) => Change::Gone(json(object)),
        Event::Init => Change::ListBegins,
        Event::InitDone => Change::ListEnds,
    }
}

fn is_missing(error: &watcher::Error) -> bool {
    let is_404 = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    match error {
        watcher::Error::InitialListFailed(e) | watcher::Error::WatchStartFailed(e) => is_404(e),
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}
