//! Watches: one task for each resource type, which may be installed later or removed.
//!
//! kube's watcher lists, watches, and lists again after an expired resourceVersion. This module turns its events into
//! [`WatchEvent`]s. A resource type that is not installed counts as an empty list, and is tried again after
//! [`DISCOVERY_INTERVAL`].

use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event};
use serde_json::Value;

use super::objects::{ApiClient, Kind};

/// Pause before the next attempt to watch a resource type.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);

/// A change that a watch reports.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// An object was created or changed, or a list contains it.
    Applied(Value),
    /// An object was deleted.
    Deleted(Value),
    /// A list of all objects begins.
    ListStarted,
    /// The list is complete: objects that it did not contain are deleted.
    ListFinished,
}

/// Watches a resource type, calls `handle` for each event, and never returns.
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
