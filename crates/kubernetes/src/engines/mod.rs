//! Engines: who keeps the data of a cache. An engine only describes; [`drive`] makes, watches and removes what it
//! describes, and holds the rules about owners, versions and objects that go, once for all engines.
//!
//! ```text
//! fluid     a Dataset and a runtime of Fluid, which makes the claim      forebay   a volume of our CSI driver, and its claim
//! drive     ensure, observe, tear down                                   conformance   what holds for each engine (tests)
//! ```

pub(crate) mod children;
#[cfg(test)]
mod conformance;
mod fluid;
mod forebay;

use serde_json::Value;

use crate::api::CacheBackend;
use crate::cluster::Key;
use crate::cluster::objects::Kind;

/// Label of all that is made for a cache: the uid of the cache.
pub(crate) const CACHE_UID: &str = "forebay.dev/cache-uid";

/// An object that a cache consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Child {
    pub(crate) kind: Kind,
    /// `None`: the kind has no namespaces, so the object cannot be owned, and is found by its label.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) spec: Value,
    /// Whether the spec of an object that is there can be changed.
    pub(crate) can_change: bool,
}

impl Child {
    /// The path of the object.
    pub(crate) fn path(&self) -> String {
        self.kind.object_path(self.namespace.as_deref(), &self.name)
    }

    /// The path of its kind.
    pub(crate) fn collection_path(&self) -> String {
        self.kind.collection_path(self.namespace.as_deref())
    }
}

/// What must be there before an engine can do anything.
pub(crate) struct Prerequisite {
    /// Path that answers when it is there.
    pub(crate) path: String,
    /// What to tell when it is not.
    pub(crate) missing: &'static str,
}

/// How far an engine is, read of its objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    /// Why the claim must not be used yet, or any more: a reason and a message.
    pub(crate) not_ready: Option<(String, String)>,
    pub(crate) cached: Option<String>,
    pub(crate) cached_percentage: Option<String>,
    pub(crate) total: Option<String>,
}

/// An engine. All of it is pure.
pub(crate) trait Engine: Send + Sync {
    /// Its name in status objects.
    fn name(&self) -> &'static str;
    /// What is wrong with a cache, besides what [`crate::api::validate`] finds.
    ///
    /// # Errors
    /// A sentence for the writer of the spec.
    fn validate(&self, cache: &CacheBackend) -> Result<(), String>;
    /// What must be there besides the kinds of the children.
    fn prerequisite(&self) -> Option<Prerequisite>;
    /// The objects that make the cache, in the order in which they are made. Their names depend on that of the cache
    /// alone.
    fn children(&self, cache: &CacheBackend) -> Vec<Child>;
    /// What to tell when a kind of its objects is not installed.
    fn not_installed(&self) -> &'static str;
    /// Whether a claim with the cache's name is the engine's, or a stranger's.
    fn is_claim(&self, cache_uid: &str, claim: &Value) -> bool;
    /// How far it is, by the children as they are.
    fn progress(&self, children: &[Value]) -> Progress;
    /// Label of nodes that hold data of a cache, where the engine has one.
    fn node_label(&self, cache: &Key) -> Option<String>;
}

/// The engine that a cache names; of a spec that [`crate::api::validate`] finds right, there is one.
pub(crate) fn engine_of(spec: &crate::api::CacheBackendSpec) -> Option<&'static dyn Engine> {
    let named = spec.cache_engine.as_ref()?;
    match (&named.fluid, &named.forebay) {
        (Some(_), None) => Some(&fluid::Fluid),
        (None, Some(_)) => Some(&forebay::Forebay),
        _ => None,
    }
}

/// All engines, for what must be removed whatever the spec says by now.
pub(crate) const ENGINES: [&dyn Engine; 2] = [&fluid::Fluid, &forebay::Forebay];
