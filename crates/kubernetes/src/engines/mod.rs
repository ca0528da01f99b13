//! Engines store the data of a cache. An engine is pure: it returns the manifests of the cache's children. [`children`]
//! creates, observes and deletes them, with the rules on owners, conflicts and terminating objects for all engines.
//!
//! ```text
//! fluid      a Dataset and a runtime of Fluid             forebay       a volume of the CSI driver, and its claim
//! children   ensures, observes and tears down children    conformance   properties of each engine (tests)
//! cache_nodes         pods that fill the tiers of nodes for the engine forebay
//! node_figures        reads the progress of these pods
//! prefetch_progress   computes the figures and the condition of a cache from it (pure)
//! ```

pub(crate) mod cache_nodes;
pub(crate) mod children;
#[cfg(test)]
mod conformance;
mod fluid;
mod forebay;
pub(crate) mod node_figures;
pub(crate) mod prefetch_progress;

use serde_json::Value;

use crate::api::{CacheBackend, CacheBackendSpec};
use crate::cluster::Key;
use crate::cluster::objects::Kind;
use prefetch_progress::CacheNodes;

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
    /// A field of the spec, as a JSON pointer, whose value in an existing object with ready pods stays.
    pub(crate) kept: Option<&'static str>,
    /// Fields of the spec, as JSON pointers, that have nothing but what `spec` says. Other clients may add to other fields.
    pub(crate) exact: &'static [&'static str],
    /// Whether the current spec of the cache wants it. A child that is not wanted is deleted.
    pub(crate) is_wanted: bool,
}

/// The settings of the operator that children depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineSettings {
    /// Image of Forebay, for cache nodes.
    pub(crate) image: String,
    /// Namespace of the operator.
    pub(crate) operator_namespace: String,
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
    /// The condition `Cached`, of a cache with cache nodes.
    pub(crate) condition: Option<CachedCondition>,
}

/// The condition `Cached`: whether all cache nodes have all data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CachedCondition {
    pub(crate) is_true: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether it is expected to change soon without an event of the API server.
    pub(crate) changes: bool,
}

/// The nodes that pods of a cache prefer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PreferredNodes {
    /// Nodes with this label.
    WithLabel(String),
    /// Nodes of pods with this label and value.
    WithPods(&'static str, String),
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
    fn children(&self, cache: &CacheBackend, settings: &EngineSettings) -> Vec<Child>;
    /// Number of cache nodes whose pods tell the progress; 0 if the children tell it.
    fn cache_nodes(&self, cache: &CacheBackend) -> u32;
    /// Message for a kind of child that is not installed.
    fn not_installed(&self) -> &'static str;
    /// Whether a claim with the cache's name belongs to the cache.
    fn is_claim(&self, cache_uid: &str, claim: &Value) -> bool;
    /// Reads the progress from the observed children, and from the observed cache nodes.
    fn progress(&self, cache: &CacheBackend, children: &[Value], nodes: &CacheNodes) -> Progress;
    /// The nodes that store data of a cache, as far as the engine knows them.
    fn preferred_nodes(&self, cache: &Key, spec: &CacheBackendSpec) -> Option<PreferredNodes>;
}

/// The engine in a spec; a spec that passes [`crate::api::validate`] has one.
pub(crate) fn engine_of(spec: &CacheBackendSpec) -> Option<&'static dyn Engine> {
    let named = spec.cache_engine.as_ref()?;
    match (&named.fluid, &named.forebay) {
        (Some(_), None) => Some(&fluid::Fluid),
        (None, Some(_)) => Some(&forebay::Forebay),
        _ => None,
    }
}

/// All engines. A deletion goes through them, because the spec may have had another engine before.
pub(crate) const ENGINES: [&dyn Engine; 2] = [&fluid::Fluid, &forebay::Forebay];
