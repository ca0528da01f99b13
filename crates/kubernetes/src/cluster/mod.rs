//! The parts that all controllers share.
//!
//! ```text
//! objects      requests to the Kubernetes API, as JSON     watches          watch events of one kind
//! work_queue   keys to reconcile, with backoff             controller       the loop that reconciles queued keys
//! leader       leader election by a Lease                  events           events of Kubernetes
//! metrics      counters and gauges of this process         metrics_server   the endpoint for Prometheus
//! pod_metrics  reads the metrics of a pod
//! ```

pub(crate) mod controller;
pub(crate) mod events;
pub(crate) mod leader;
pub(crate) mod metrics;
pub(crate) mod metrics_server;
pub(crate) mod objects;
pub(crate) mod pod_metrics;
pub(crate) mod watches;
pub(crate) mod work_queue;

use std::fmt;

/// The namespace and name of an object: the unit that a controller reconciles.
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
