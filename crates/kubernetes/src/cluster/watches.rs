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

use super::objects::{ApiClient, Kind};

/// How often a kind is looked for that is not installed.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);

/// What changed.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// An object is there, new or changed.
    Applied(Value),
    /// An object is gone.
    Deleted(Value),
    /// A list of all objects begins.
    ListStarted,
    /// All objects were told since the list began; others are gone.
    ListFinished,
}

/// Tells what changes, for ever.
pub(crate) async fn watch(
    client: ApiClient,
    kind: Kind,
    labels: Option<String>,
    mut handle: impl FnMut(Kind, WatchEvent),
) {
    let config = labels.map_or_else(Config::default, |labels| Config::default().labels(&labels));
    loop {
        let api: Api<DynamicObject> = Api::all_with(client.client.clone(), &kind.resource());
        let mut events = std::pin::pin!(watcher::watcher(api, config.clone()).default_backoff());
        let mut is_reported = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    is_reported = false;
                    handle(kind, watch_event(event));
                }
                Err(error) if is_not_installed(&error) => {
                    handle(kind, WatchEvent::ListStarted);
                    handle(kind, WatchEvent::ListFinished);
                    break;
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::warn!(
                            kind = kind.kind,
                            error = forebay_proto::innermost(&error),
                            "changes are not seen"
                        );
                    }
                }
            }
        }
        tokio::time::sleep(DISCOVERY_INTERVAL).await;
    }
}

fn watch_event(event: Event<DynamicObject>) -> WatchEvent {
    let json = |object| serde_json::to_value::<DynamicObject>(object).unwrap_or_default();
    match event {
        Event::Apply(object) | Event::InitApply(object) => WatchEvent::Applied(json(object)),
        Event::Delete(object) => WatchEvent::Deleted(json(object)),
        Event::Init => WatchEvent::ListStarted,
        Event::InitDone => WatchEvent::ListFinished,
    }
}

fn is_not_installed(error: &watcher::Error) -> bool {
    let is_404 = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    match error {
        watcher::Error::InitialListFailed(e) | watcher::Error::WatchStartFailed(e) => is_404(e),
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}
