//! Requests to the Kubernetes API by path, with JSON bodies. kube's client finds the cluster, authenticates, and does
//! TLS.
//!
//! Each request has the timeout [`ANSWER_MAX`]. A write carries the resourceVersion that was read, or is a JSON patch
//! that tests the fields that it changes.

use std::fmt;
use std::time::Duration;

use http::request::Builder;
use http::{Method, Request};
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::metrics::METRICS;

/// Timeout of a request.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Objects in one page of a list.
const PAGE: usize = 500;
/// Most pages of one list.
const PAGES_MAX: usize = 400;

/// A resource type: group, version, kind and plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

/// Declares a kind.
pub(crate) const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { group, version, kind, plural }
}

pub(crate) const DEPLOYMENTS: Kind = kind("apps", "v1", "Deployment", "deployments");
pub(crate) const POLICIES: Kind = kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies");
pub(crate) const CACHE_BACKENDS: Kind = kind("cache.kubedl.io", "v1alpha1", "CacheBackend", "cachebackends");
pub(crate) const FOREBAY_SERVICES: Kind = kind("forebay.dev", "v1alpha1", "ForebayService", "forebayservices");
pub(crate) const PODS: Kind = kind("", "v1", "Pod", "pods");
pub(crate) const CLAIMS: Kind = kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub(crate) const VOLUMES: Kind = kind("", "v1", "PersistentVolume", "persistentvolumes");
pub(crate) const SECRETS: Kind = kind("", "v1", "Secret", "secrets");
pub(crate) const JOBS: Kind = kind("batch", "v1", "Job", "jobs");
pub(crate) const LEASES: Kind = kind("coordination.k8s.io", "v1", "Lease", "leases");
pub(crate) const TF_JOBS: Kind = kind("training.kubedl.io", "v1alpha1", "TFJob", "tfjobs");
pub(crate) const PYTORCH_JOBS: Kind = kind("training.kubedl.io", "v1alpha1", "PyTorchJob", "pytorchjobs");
pub(crate) const KUBEFLOW_TF_JOBS: Kind = kind("kubeflow.org", "v1", "TFJob", "tfjobs");
pub(crate) const KUBEFLOW_PYTORCH_JOBS: Kind = kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs");
pub(crate) const TRAIN_JOBS: Kind = kind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs");
pub(crate) const JOB_SETS: Kind = kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets");
pub(crate) const RAY_JOBS: Kind = kind("ray.io", "v1", "RayJob", "rayjobs");
pub(crate) const RAY_CLUSTERS: Kind = kind("ray.io", "v1", "RayCluster", "rayclusters");

/// Returns the selector of objects with a label of this value, encoded for a query.
pub(crate) fn selector(label: &str, value: &str) -> String {
    format!("{}%3D{value}", label.replace('/', "%2F"))
}

/// Returns the operator's pods, as a peer of a NetworkPolicy: the operator reads the metrics of pods.
pub(crate) fn operator_pods(namespace: &str) -> Value {
    json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": {"app": "forebay-operator"}},
    })
}

impl Kind {
    /// The field `apiVersion` of objects: `group/version`.
    pub(crate) fn api_version(self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of the collection in a namespace, or in the cluster.
    pub(crate) fn collection_path(self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let within = namespace.map(|n| format!("/namespaces/{n}")).unwrap_or_default();
        format!("{root}/{}{within}/{}", self.api_version(), self.plural)
    }

    /// The path of one object.
    pub(crate) fn object_path(self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{name}", self.collection_path(namespace))
    }

    /// The resource type for kube's API.
    pub(crate) fn resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, self.version, self.kind), self.plural)
    }
}

/// A failed request to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// The HTTP status; 0 without an answer.
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Another client changed the object meanwhile, or it exists already. The next reconcile reads it again.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == 409
    }

    /// The namespace is terminating, and accepts no new object.
    pub(crate) fn is_namespace_terminating(&self) -> bool {
        self.code == 403 && self.message.contains("because it is being terminated")
    }

    /// A retry of the same request cannot succeed.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.code, 400 | 403 | 405 | 413 | 415 | 422)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code == 0 { write!(f, "{}", self.message) } else { write!(f, "{} ({})", self.message, self.code) }
    }
}

/// The result of a request.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// A client of one cluster's API.
#[derive(Clone)]
pub(crate) struct ApiClient {
    pub(crate) client: Client,
}

impl ApiClient {
    /// Reads one object.
    pub(crate) async fn get(&self, path: &str) -> ApiResult<Value> {
        self.ask(Request::get(path), Vec::new()).await
    }

    /// Reads one object; `None` if it does not exist.
    pub(crate) async fn find(&self, path: &str) -> ApiResult<Option<Value>> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists a collection in pages. A resource type that is not installed gives an empty list.
    pub(crate) async fn list(&self, path: &str, labels: &str) -> ApiResult<Vec<Value>> {
        let (mut found, mut next) = (Vec::new(), String::new());
        for _ in 0..PAGES_MAX {
            let query = format!("{path}?limit={PAGE}&labelSelector={labels}&continue={next}");
            let mut page = match self.get(&query).await {
                Err(error) if error.is_not_found() => return Ok(found),
                page => page?,
            };
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                found.extend(items);
            }
            next = text(&page, "/metadata/continue").to_owned();
            if next.is_empty() {
                return Ok(found);
            }
        }
        let message = format!("{path} has more than {} objects", PAGE * PAGES_MAX);
        Err(ApiError { code: 0, reason: "TooMany".to_owned(), message })
    }

    /// Creates an object.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> ApiResult<Value> {
        self.ask(Request::post(path).header("content-type", "application/json"), body(object)).await
    }

    /// Replaces an object, which carries the resourceVersion that was read.
    pub(crate) async fn replace(&self, path: &str, object: &Value) -> ApiResult<Value> {
        self.ask(Request::put(path).header("content-type", "application/json"), body(object)).await
    }

    /// Changes fields by a JSON merge patch.
    pub(crate) async fn merge(&self, path: &str, fields: &Value) -> ApiResult<Value> {
        self.ask(Request::patch(path).header("content-type", "application/merge-patch+json"), body(fields)).await
    }

    /// Changes an object by a JSON patch.
    pub(crate) async fn patch(&self, path: &str, operations: &Value) -> ApiResult<Value> {
        self.ask(Request::patch(path).header("content-type", "application/json-patch+json"), body(operations)).await
    }

    /// Applies a manifest by server-side apply, and takes over fields that other managers own.
    pub(crate) async fn apply(&self, path: &str, object: &Value) -> ApiResult<Value> {
        let path = format!("{path}?fieldManager=forebay-operator&force=true");
        self.ask(Request::patch(path).header("content-type", "application/apply-patch+yaml"), body(object)).await
    }

    /// Deletes an object if its uid, and its resourceVersion if given, still match. A missing object counts as deleted.
    pub(crate) async fn delete(&self, path: &str, uid: &str, version: Option<&str>) -> ApiResult<()> {
        let mut only = json!({"uid": uid});
        if let Some(version) = version {
            only["resourceVersion"] = json!(version);
        }
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": only, "propagationPolicy": "Background"});
        let request = Request::delete(path).header("content-type", "application/json");
        match self.ask(request, body(&options)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask(&self, request: Builder, body: Vec<u8>) -> ApiResult<Value> {
        let request = request.body(body).map_err(|e| no_answer(format!("cannot be asked for: {e}")))?;
        let what = format!("{} {}", request.method(), request.uri().path());
        let verb = verb(request.method());
        let answer = tokio::time::timeout(ANSWER_MAX, self.client.request::<Value>(request)).await;
        METRICS.request(verb, outcome(&answer));
        let answer = answer
            .map_err(|_| no_answer(format!("Kubernetes did not answer within {} s: {what}", ANSWER_MAX.as_secs())))?;
        answer.map_err(|error| match error {
            kube::Error::Api(status) => ApiError {
                code: status.code,
                reason: status.reason.clone(),
                message: format!("{what}: {}", status.message),
            },
            other => no_answer(format!("Kubernetes does not answer: {what}: {}", forebay_proto::innermost(&other))),
        })
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        _ => "DELETE",
    }
}

fn outcome<E>(answer: &Result<Result<Value, kube::Error>, E>) -> &'static str {
    match answer {
        Ok(Ok(_)) => "ok",
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => "conflict",
        Ok(Err(kube::Error::Api(_))) => "refused",
        _ => "silent",
    }
}

fn no_answer(message: String) -> ApiError {
    ApiError { code: 0, reason: "NoAnswer".to_owned(), message }
}

fn body(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

/// Returns the string at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the array at a JSON pointer; empty if there is none.
pub(crate) fn items<'a>(object: &'a Value, at: &str) -> &'a [Value] {
    object.pointer(at).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether the object has a deletionTimestamp.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// The owner reference of the object's controller.
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences").iter().find(|o| o.get("controller") == Some(&Value::Bool(true)))
}
