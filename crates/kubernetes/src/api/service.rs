//! The spec of a ForebayService: a dispatcher, workers of several types, and their network.
//!
//! The fields of pods (`env`, `volumes`, `tolerations`, `resources`) have the form of Kubernetes, and are copied into
//! the pod specs. [`super::service_validate`] validates the other fields.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::service_status::ServiceStatus;

/// A dispatcher and workers, as many as its jobs want
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "forebay.dev",
    version = "v1alpha1",
    kind = "ForebayService",
    plural = "forebayservices",
    singular = "forebayservice",
    namespaced,
    status = "ServiceStatus",
    doc = "A dispatcher and workers, as many as its jobs want",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Dispatchers","type":"string","jsonPath":".status.dispatchersReady"}"#,
    printcolumn = r#"{"name":"Workers","type":"string","jsonPath":".status.workersReady"}"#,
    printcolumn = r#"{"name":"Wanted","type":"string","jsonPath":".status.workersWanted"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Address","type":"string","jsonPath":".status.address","priority":1}"#
)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ForebayServiceSpec {
    /// Image with forebay, and with the libraries that functions of pipelines import
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) image: String,
    /// Names of Secrets with which the image is pulled
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub(crate) image_pull_secrets: Vec<String>,
    /// Service account of the pods, for access to stores [default: none; its token is not mounted]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_account_name: Option<String>,
    /// Environment variables of all pods, as in a container
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) env: Vec<Value>,
    /// Volumes of all pods, as in a pod: data that pipelines read
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) volumes: Vec<Value>,
    /// Mounts of those volumes, as in a container
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) volume_mounts: Vec<Value>,
    /// The dispatcher, or several over etcd
    pub(crate) dispatcher: Dispatcher,
    /// Worker types; with several, each has a price and threads
    #[schemars(length(min = 1, max = 16))]
    pub(crate) workers: Vec<Worker>,
    /// TLS [default: none]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Tls>,
    /// Bearer tokens [default: everyone may do everything]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Tokens>,
    /// Objective by which the dispatcher chooses the number of workers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) autoscale: Option<Autoscale>,
    /// The Service at which trainers reach the dispatcher
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<Reachable>,
    /// Peers that may connect
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<Network>,
}

/// The dispatcher: exactly one of volume and etcd is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Dispatcher {
    /// One dispatcher, with its state on a volume
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume: Option<Volume>,
    /// Several dispatchers, with their state in etcd
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etcd: Option<Etcd>,
    /// Processor and memory, as in a container
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object")]
    pub(crate) resources: Option<Value>,
    /// Labels of the nodes that may run it
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Taints that it tolerates, as in a pod
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) tolerations: Vec<Value>,
    /// Further arguments of `forebay dispatcher`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub(crate) args: Vec<String>,
}

/// The volume with the state of one dispatcher: a claim that the operator creates, or an existing claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    /// Size of the claim, which is deleted with the service [default: 10Gi]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE]|[eE][0-9]+)?$"), length(max = 32))]
    pub(crate) size: Option<String>,
    /// Storage class of the claim [default: that of the cluster]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) storage_class_name: Option<String>,
    /// Name of an existing claim, which stays when the service is deleted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claim_name: Option<String>,
}

/// The etcd with the state of several dispatchers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Etcd {
    /// Addresses of its members: host:port
    #[schemars(length(min = 1, max = 16))]
    pub(crate) endpoints: Vec<String>,
    /// Prefix of its keys [default: forebay-NAMESPACE-NAME]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
    /// Number of dispatchers, of which one leads [default: 2]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 7))]
    pub(crate) replicas: Option<u32>,
}

/// Workers of one price and one kind of machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Worker {
    /// Name of the type in this service: its Deployment is SERVICE-worker-NAME
    #[schemars(regex(pattern = r"^[a-z]([a-z0-9-]*[a-z0-9])?$"), length(max = 20))]
    pub(crate) name: String,
    /// Kind of machine, as figures and costs name it [default: the name, where there is a price]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), length(max = 63))]
    pub(crate) kind: Option<String>,
    /// Price of a worker for an hour, in any currency
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub(crate) price: Option<f64>,
    /// Compute threads of a worker [default: the processors of its container]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) threads: Option<u32>,
    /// Its machines may be taken back at any time
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) spot: bool,
    /// Bounds of their number
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<Replicas>,
    /// Processor and memory, as in a container
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "object")]
    pub(crate) resources: Option<Value>,
    /// Labels of the nodes that may run them
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Taints that they tolerate, as in a pod
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) tolerations: Vec<Value>,
    /// Further arguments of `forebay worker`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub(crate) args: Vec<String>,
}

/// The bounds of a worker type's replicas. Equal bounds fix the number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Replicas {
    /// Minimum [default: 1; 0 if the service has several types]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub(crate) min: Option<u32>,
    /// Maximum [default: 16, or the minimum if that is greater]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max: Option<u32>,
}

/// TLS of dispatchers and workers, by one Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Tls {
    /// Secret with tls.crt, tls.key and ca.crt
    pub(crate) secret_name: String,
    /// Name that the certificate carries, and that trainers expect [default: NAME.NAMESPACE.svc]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Accept only callers with a certificate of the authority in ca.crt
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) client_certificates: bool,
}

/// Bearer tokens, by one Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Tokens {
    /// Secret with tokens.json, as `forebay token new` writes it, and worker.token
    pub(crate) secret_name: String,
}

/// The objective by which the dispatcher chooses the number of workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Autoscale {
    /// time, cost, or cost-within:1.05 [default: time]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(time|cost|cost-within:[0-9]+(\.[0-9]+)?)$"))]
    pub(crate) objective: Option<String>,
    /// Price of a trainer's machine for an hour, for the objectives with a cost
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub(crate) trainer_price: Option<f64>,
}

/// The Service at which trainers reach the dispatcher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reachable {
    /// ClusterIP, NodePort or LoadBalancer [default: ClusterIP]
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(ClusterIP|NodePort|LoadBalancer)$"))]
    pub(crate) type_: Option<String>,
    /// Its annotations
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Peers that may connect, besides the pods of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Network {
    /// Whether the operator creates NetworkPolicies [default: true]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<bool>,
    /// Peers, as in a NetworkPolicy, that may connect to dispatchers and workers
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) from: Vec<Value>,
    /// Peers that may read metrics
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) metrics_from: Vec<Value>,
}

/// Default maximum of a worker type's replicas.
const WORKERS_MAX: u32 = 16;

impl ForebayServiceSpec {
    /// Number of dispatchers.
    pub(crate) fn dispatchers(&self) -> u32 {
        self.dispatcher.etcd.as_ref().map_or(1, |etcd| etcd.replicas.unwrap_or(2))
    }

    /// Whether the dispatcher gets the worker types as offers, and chooses a number for each.
    pub(crate) fn has_offers(&self) -> bool {
        self.workers.iter().all(|w| w.price.is_some() && w.threads.is_some())
    }

    /// Minimum and maximum replicas of a worker type.
    pub(crate) fn bounds(&self, of: &Worker) -> (u32, u32) {
        let replicas = of.replicas.clone().unwrap_or_default();
        let min = replicas.min.unwrap_or(u32::from(self.workers.len() < 2));
        (min, replicas.max.unwrap_or(WORKERS_MAX.max(min)))
    }

    /// The dispatcher's offer for a worker type: its kind, and whether it is spot; `None` without offers.
    pub(crate) fn offered<'a>(&self, of: &'a Worker) -> Option<(&'a str, bool)> {
        self.kind(of).filter(|_| self.has_offers()).map(|kind| (kind, of.spot))
    }

    /// The dispatcher's kind for a worker type; `None` for a type without kind and price.
    pub(crate) fn kind<'a>(&self, of: &'a Worker) -> Option<&'a str> {
        of.kind.as_deref().or_else(|| of.price.is_some().then_some(of.name.as_str()))
    }
}

/// Schema of a list of objects in the form of Kubernetes.
pub(super) fn objects(_: &mut SchemaGenerator) -> Schema {
    let any = json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json_schema!({"type": "array", "items": any, "maxItems": 64})
}

/// Schema of an object in the form of Kubernetes.
fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
