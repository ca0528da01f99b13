//! An index of all uses of caches, by cache. The watches fill it, so a reconcile needs no list request.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::uses::{self, Use};
use crate::cluster::Key;
use crate::cluster::objects::{Kind, text};

/// The kind and key of an object that uses a cache.
type Id = (Kind, Key);

#[derive(Default)]
struct State {
    uses: HashMap<Key, HashMap<Id, Use>>,
    cache_of: HashMap<Id, Key>,
    /// Keys of CacheBackends that a watch or a reconcile has seen.
    caches: HashSet<Key>,
    /// Indexed objects that the running list of their kind has not contained yet.
    unlisted: HashMap<Kind, HashSet<Id>>,
}

/// The uses of all caches.
#[derive(Default)]
pub(crate) struct Index {
    state: Mutex<State>,
}

impl Index {
    /// Indexes the current state of an object; returns the keys of the affected caches.
    pub(crate) fn put(&self, kind: Kind, object: &Value) -> Vec<Key> {
        let found = uses::read(kind, object);
        let id = (kind, Key::new(text(object, "/metadata/namespace"), text(object, "/metadata/name")));
        self.with(|state| {
            if let Some(unlisted) = state.unlisted.get_mut(&kind) {
                unlisted.remove(&id);
            }
            let mut affected = state.remove_use(&id);
            if let Some(found) = found {
                let cache = found.cache.clone();
                state.uses.entry(cache.clone()).or_default().insert(id.clone(), found);
                state.cache_of.insert(id, cache.clone());
                if !affected.contains(&cache) {
                    affected.push(cache);
                }
            }
            affected
        })
    }

    /// Removes an object; returns the keys of the affected caches.
    pub(crate) fn remove(&self, kind: Kind, object: &Key) -> Vec<Key> {
        self.with(|state| state.remove_use(&(kind, object.clone())))
    }

    /// Begins a list of all objects of a kind.
    pub(crate) fn start_list(&self, kind: Kind) {
        self.with(|state| {
            let all = state.cache_of.keys().filter(|(of, _)| *of == kind).cloned().collect();
            state.unlisted.insert(kind, all);
        });
    }

    /// Ends the list: removes objects that it did not contain. Returns the keys of the affected caches.
    pub(crate) fn finish_list(&self, kind: Kind) -> Vec<Key> {
        self.with(|state| {
            let gone = state.unlisted.remove(&kind).unwrap_or_default();
            gone.iter().flat_map(|id| state.remove_use(id)).collect()
        })
    }

    /// Returns the uses of a cache, sorted by object.
    pub(crate) fn of(&self, cache: &Key) -> Vec<Use> {
        let mut uses: Vec<Use> =
            self.with(|state| state.uses.get(cache).map(|uses| uses.values().cloned().collect()).unwrap_or_default());
        uses.sort_by(|a, b| a.object.cmp(&b.object));
        uses
    }

    /// Adds the key of a CacheBackend.
    pub(crate) fn add_cache(&self, cache: Key) {
        self.with(|state| state.caches.insert(cache));
    }

    /// Removes the key of a CacheBackend.
    pub(crate) fn remove_cache(&self, cache: &Key) {
        self.with(|state| state.caches.remove(cache));
    }

    /// Whether a CacheBackend of this key exists, or an object uses it.
    pub(crate) fn is_known(&self, cache: &Key) -> bool {
        self.with(|state| state.caches.contains(cache) || state.uses.contains_key(cache))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn remove_use(&mut self, id: &Id) -> Vec<Key> {
        let Some(cache) = self.cache_of.remove(id) else { return Vec::new() };
        if let Some(uses) = self.uses.get_mut(&cache) {
            uses.remove(id);
            if uses.is_empty() {
                self.uses.remove(&cache);
            }
        }
        vec![cache]
    }
}
