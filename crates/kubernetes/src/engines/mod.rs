//! Engines store the data of a cache. An engine is pure: it returns the manifests of the cache's children. [`children`]
//! creates, observes and deletes them, with the rules on owners, conflicts and terminating objects for all engines.
//!
//! ```text
//! fluid      a Dataset and a runtime of Fluid             forebay       a volume of the CSI driver, and its claim
//! children   ensures, observes and tears down children    conformance   properties of each engine (tests)
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

/// Label of a cache's children: the uid of the cache.
pub(crate) const CACHE_UID: &str = "forebay.dev/cache-uid";

/// A desired child of a cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Child {
    pub(crate) kind: Kind,
    /// `None` for a cluster-scoped kind: a namespaced cache cannot own the object, so its label names the cache.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) spec: Value,
    /// Whether the spec of an existing object can be changed.
    pub(crate) can_change: bool,
}

impl Child {
    /// The path of the object.
    pub(crate) fn path(&self) -> String {
        self.kind.object_path(self.namespace.as_deref(), &self.name)
    }

    /// The path of the collection.
    pub(crate) fn collection_path(&self) -> String {
        self.kind.collection_path(self.namespace.as_deref())
    }
}

/// An object that must exist before the engine's children are created.
pub(crate) struct Prerequisite {
    /// Path of the object.
    pub(crate) path: String,
    /// Message for its absence.
    pub(crate) missing: &'static str,
}

/// The progress of an engine, read from the cache's children.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    /// Reason and message why pods must not use the claim now.
    pub(crate) not_ready: Option<(String, String)>,
    pub(crate) cached: Option<String>,
    pub(crate) cached_percentage: Option<String>,
    pub(crate) total: Option<String>,
}

/// An engine. All methods are pure.
pub(crate) trait Engine: Send + Sync {
    /// Name of the engine in a status.
    fn name(&self) -> &'static str;
    /// Validates a cache after [`crate::api::validate`].
    ///
    /// # Errors
    /// A sentence for the author of the spec.
    fn validate(&self, cache: &CacheBackend) -> Result<(), String>;
    /// An object that the engine needs besides the kinds of its children.
    fn prerequisite(&self) -> Option<Prerequisite>;
    /// The cache's children in the order of creation. Their names depend only on the name of the cache.
    fn children(&self, cache: &CacheBackend) -> Vec<Child>;
    /// Message for a kind of child that is not installed.
    fn not_installed(&self) -> &'static str;
    /// Whether a claim with the cache's name belongs to the cache.
    fn is_claim(&self, cache_uid: &str, claim: &Value) -> bool;
    /// Reads the progress from the observed children.
    fn progress(&self, children: &[Value]) -> Progress;
    /// Label of nodes that store data of a cache, if the engine sets one.
    fn node_label(&self, cache: &Key) -> Option<String>;
}

/// The engine in a spec; a spec that passes [`crate::api::validate`] has one.
pub(crate) fn engine_of(spec: &crate::api::CacheBackendSpec) -> Option<&'static dyn Engine> {
    let named = spec.cache_engine.as_ref()?;
    match (&named.fluid, &named.forebay) {
        (Some(_), None) => Some(&fluid::Fluid),
        (None, Some(_)) => Some(&forebay::Forebay),
        _ => None,
    }
}

/// All engines. A deletion goes through them, because the spec may have had another engine before.
pub(crate) const ENGINES: [&dyn Engine; 2] = [&fluid::Fluid, &forebay::Forebay];
