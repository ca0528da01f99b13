//! What all controllers share: the Kubernetes API, its watches, the queue of what is to be looked at, the election, and
//! events.
//!
//! ```text
//! objects   paths and JSON over kube's client      watches   what changed, of kinds that may not be there
//! queue     keys that are due, with pauses         leader    the Lease of the one that acts
//! looks     a controller's loop over its queue     meter     figures for Prometheus       events   what is told
//! ```

pub(crate) mod controller;
pub(crate) mod events;
pub(crate) mod leader;
pub(crate) mod metrics;
pub(crate) mod metrics_server;
pub(crate) mod objects;
pub(crate) mod watches;
pub(crate) mod work_queue;

use std::fmt;

/// A namespaced name: what controllers look at, one at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    /// Returns the key of this namespace and name.
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
