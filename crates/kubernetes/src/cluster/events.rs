//! Events of Kubernetes, which `kubectl describe` shows. An event may get lost, so no decision depends on one.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::Value;

use super::objects::text;

/// Longest note that the API accepts, in bytes.
const NOTE_MAX: usize = 1024;

/// Publishes events about objects.
#[derive(Clone)]
pub(crate) struct Events {
    recorder: Recorder,
    action: &'static str,
}

impl Events {
    /// Publishes as the controller `forebay-operator`; `action` is the action of each event.
    pub(crate) fn new(client: Client, instance: &str, action: &'static str) -> Self {
        let reporter = Reporter { controller: "forebay-operator".to_owned(), instance: Some(instance.to_owned()) };
        Self { recorder: Recorder::new(client, reporter), action }
    }

    /// Publishes an event of type Normal.
    pub(crate) async fn normal(&self, object: &Value, reason: &str, note: &str) {
        self.publish(EventType::Normal, object, reason, note).await;
    }

    /// Publishes an event of type Warning, for a fault that the object's author can correct.
    pub(crate) async fn warning(&self, object: &Value, reason: &str, note: &str) {
        self.publish(EventType::Warning, object, reason, note).await;
    }

    async fn publish(&self, type_: EventType, object: &Value, reason: &str, note: &str) {
        let some = |at| Some(text(object, at).to_owned()).filter(|text| !text.is_empty());
        let reference = ObjectReference {
            api_version: some("/apiVersion"),
            kind: some("/kind"),
            namespace: some("/metadata/namespace"),
            name: some("/metadata/name"),
            uid: some("/metadata/uid"),
            ..ObjectReference::default()
        };
        let mut end = note.len().min(NOTE_MAX);
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        let note = Some(note[..end].to_owned());
        let event = Event { type_, reason: reason.to_owned(), note, action: self.action.to_owned(), secondary: None };
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(reason, error = forebay_proto::innermost(&error), "an event was not published");
        }
    }
}
