//! One manifest of a service: name, labels, owner reference, and the hash of its content.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use crate::api::service::ForebayServiceSpec;
use crate::cluster::objects::{FOREBAY_SERVICES, Kind, kind};

/// Label of the service's objects and pods: the name of the service.
pub(crate) const SERVICE: &str = "forebay.dev/service";
/// Label of pods: dispatcher or worker.
pub(crate) const ROLE: &str = "forebay.dev/role";
/// Label of workers: their type.
pub(crate) const WORKER_TYPE: &str = "forebay.dev/worker-type";
/// Annotation of an object: hash of the manifest that the operator applied last.
pub(crate) const APPLIED_HASH: &str = "forebay.dev/written";

pub(crate) const STATEFUL_SETS: Kind = kind("apps", "v1", "StatefulSet", "statefulsets");
pub(crate) const SERVICES: Kind = kind("", "v1", "Service", "services");
pub(crate) const CONFIG_MAPS: Kind = kind("", "v1", "ConfigMap", "configmaps");
/// PodDisruptionBudgets of Kubernetes 1.21 and later, and of earlier versions.
pub(crate) const BUDGETS: Kind = kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub(crate) const OLD_BUDGETS: Kind = kind("policy", "v1beta1", "PodDisruptionBudget", "poddisruptionbudgets");

/// Ports of dispatchers and workers.
pub(crate) const DISPATCHER_PORT: u16 = 7070;
pub(crate) const DISPATCHER_METRICS: u16 = 7071;
pub(super) const WORKER_PORT: u16 = 7080;
pub(super) const WORKER_METRICS: u16 = 7081;

/// Facts about the cluster on which manifests depend.
#[derive(Clone, Debug)]
pub(crate) struct ClusterInfo {
    /// Resource type of PodDisruptionBudgets.
    pub(crate) budgets: Kind,
    /// Namespace of the operator, which reads dispatchers' metrics.
    pub(crate) operator: String,
}

/// A desired object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The whole object, with metadata.
    pub(crate) body: Value,
}

/// The service that owns the manifests.
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
    pub(super) spec: &'a ForebayServiceSpec,
}

/// Name of the StatefulSet of a service.
pub(crate) fn dispatcher_name(service: &str) -> String {
    format!("{service}-dispatcher")
}

/// `host:port` at which pods of the cluster reach the dispatcher.
pub(crate) fn address(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc:{DISPATCHER_PORT}")
}

impl Owner<'_> {
    /// Returns a manifest with the service's labels and owner reference; `rest` has the other fields.
    pub(super) fn manifest(&self, kind: Kind, name: String, rest: Value) -> Manifest {
        let mut body = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {
                    SERVICE: self.name, "app.kubernetes.io/name": "forebay", "app.kubernetes.io/instance": self.name,
                    "app.kubernetes.io/managed-by": "forebay-operator",
                },
                "annotations": {},
                "ownerReferences": [{
                    "apiVersion": FOREBAY_SERVICES.api_version(), "kind": FOREBAY_SERVICES.kind, "name": self.name,
                    "uid": self.uid, "controller": true,
                }],
            },
        });
        if let Value::Object(fields) = rest {
            for (field, value) in fields {
                body[field] = value;
            }
        }
        Manifest { kind, name, body }
    }

    /// Returns the labels of its pods of a role.
    pub(super) fn labels(&self, role: &str) -> Value {
        json!({SERVICE: self.name, ROLE: role})
    }
}

impl Manifest {
    /// Adds a label.
    pub(super) fn labelled(mut self, name: &str, value: &str) -> Self {
        self.body["metadata"]["labels"][name] = json!(value);
        self
    }

    /// Returns the body with the hash of its content. The hash leaves out the replicas, which scaling changes.
    pub(crate) fn with_hash(&self) -> Value {
        let mut constant = self.body.clone();
        if let Some(spec) = constant.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("replicas");
        }
        let mut hasher = DefaultHasher::new();
        constant.to_string().hash(&mut hasher);
        let mut body = self.body.clone();
        body["metadata"]["annotations"][APPLIED_HASH] = json!(format!("{:016x}", hasher.finish()));
        body
    }
}
