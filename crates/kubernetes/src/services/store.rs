//! The informer cache of services and their objects. The watches fill it, so a reconcile without changes sends no
//! request.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::manifests::SERVICE;
use crate::cluster::Key;
use crate::cluster::objects::{FOREBAY_SERVICES, Kind, text};

/// An object: its kind, namespace and name.
type Id = (&'static str, Key);

#[derive(Default)]
struct State {
    objects: HashMap<Id, Value>,
    /// Stored objects that the running list of their kind has not contained yet.
    unlisted: HashMap<&'static str, HashSet<Id>>,
}

/// The objects that the watches reported.
#[derive(Default)]
pub(crate) struct Store {
    state: Mutex<State>,
}

impl Store {
    /// Stores the current state of an object; returns the key of its service.
    pub(crate) fn put(&self, kind: Kind, object: Value) -> Option<Key> {
        let (id, service) = (id(kind, &object), service_of(kind, &object));
        self.with(|state| {
            if let Some(unlisted) = state.unlisted.get_mut(kind.kind) {
                unlisted.remove(&id);
            }
            state.objects.insert(id, object);
        });
        service
    }

    /// Removes an object; returns the key of its service.
    pub(crate) fn remove(&self, kind: Kind, object: &Value) -> Option<Key> {
        let id = id(kind, object);
        self.with(|state| state.objects.remove(&id)).and_then(|object| service_of(kind, &object))
    }

    /// Begins a list of all objects of a kind.
    pub(crate) fn start_list(&self, kind: Kind) {
        self.with(|state| {
            let all = state.objects.keys().filter(|(of, _)| *of == kind.kind).cloned().collect();
            state.unlisted.insert(kind.kind, all);
        });
    }

    /// Ends the list: removes objects that it did not contain. Returns the keys of their services.
    pub(crate) fn finish_list(&self, kind: Kind) -> Vec<Key> {
        self.with(|state| {
            let gone = state.unlisted.remove(kind.kind).unwrap_or_default();
            let gone = gone.iter().filter_map(|id| state.objects.remove(id));
            gone.filter_map(|object| service_of(kind, &object)).collect()
        })
    }

    /// Returns an object.
    pub(crate) fn get(&self, kind: Kind, key: &Key) -> Option<Value> {
        self.with(|state| state.objects.get(&(kind.kind, key.clone())).cloned())
    }

    /// Stores an object that the operator has read or written, unless the stored resourceVersion is newer.
    pub(crate) fn put_newer(&self, kind: Kind, object: &Value) {
        let version = |object: &Value| text(object, "/metadata/resourceVersion").parse::<u64>().unwrap_or(0);
        let id = id(kind, object);
        self.with(|state| {
            if state.objects.get(&id).is_none_or(|there| version(there) < version(object)) {
                state.objects.insert(id, object.clone());
            }
        });
    }

    /// Returns the objects of a kind that belong to a service, sorted by name.
    pub(crate) fn of_service(&self, kind: Kind, service: &Key) -> Vec<Value> {
        let mut found: Vec<Value> = self.with(|state| {
            let of_kind = state.objects.iter().filter(|((of, _), _)| *of == kind.kind);
            of_kind
                .filter(|(_, object)| service_of(kind, object).as_ref() == Some(service))
                .map(|(_, o)| o.clone())
                .collect()
        });
        found.sort_by(|a, b| text(a, "/metadata/name").cmp(text(b, "/metadata/name")));
        found
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn id(kind: Kind, object: &Value) -> Id {
    (kind.kind, Key::new(text(object, "/metadata/namespace"), text(object, "/metadata/name")))
}

/// The key of the service: the object itself, or the service in its label.
fn service_of(kind: Kind, object: &Value) -> Option<Key> {
    let namespace = text(object, "/metadata/namespace");
    if kind == FOREBAY_SERVICES {
        return Some(Key::new(namespace, text(object, "/metadata/name")));
    }
    let labels = object.pointer("/metadata/labels")?;
    labels.get(SERVICE).and_then(Value::as_str).map(|name| Key::new(namespace, name))
}
