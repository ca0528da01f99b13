//! A client for one workload: reads its status, and patches its scale.
//!
//! Requests go by path through kube's client, which finds the cluster, authenticates, and does TLS. Answers are JSON;
//! an absent number counts as 0.

use std::fmt;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::cause::{self, WorkloadName};

/// Timeout of a request.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The kind of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    StatefulSet,
    Deployment,
}

impl Kind {
    fn plural(self) -> &'static str {
        match self {
            Self::StatefulSet => "statefulsets",
            Self::Deployment => "deployments",
        }
    }
}

/// A client for one workload of a cluster.
pub(crate) struct WorkloadClient {
    client: Client,
    namespace: String,
    kind: Kind,
    name: String,
}

impl fmt::Display for WorkloadClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} in {}", self.kind.plural(), self.name, self.namespace)
    }
}

/// The observed state of a workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Workload {
    /// `spec.replicas`.
    pub(crate) replicas: u32,
    /// `status.readyReplicas`.
    pub(crate) ready: u32,
    /// `status.replicas`, which includes terminating pods.
    pub(crate) present: u32,
    /// The whole object.
    pub(crate) object: Value,
}

impl Workload {
    /// Reads a workload.
    pub(crate) fn of(object: Value) -> Self {
        let number = |at: &str| object.pointer(at).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        let (ready, present) = (number("/status/readyReplicas"), number("/status/replicas"));
        Self {
            // The default of Kubernetes.
            replicas: number("/spec/replicas").unwrap_or(1),
            ready: ready.unwrap_or(0),
            present: present.unwrap_or(0),
            object,
        }
    }
}

impl WorkloadClient {
    /// Finds the cluster by the pod's service account or the kubeconfig. Sends no request.
    ///
    /// # Errors
    /// Invalid when both are absent or invalid.
    pub(crate) async fn connect(namespace: Option<String>, kind: Kind, name: &str) -> Result<Self> {
        let found = Config::infer().await.map_err(|e| {
            let hint = "run this in a pod with a service account, or set KUBECONFIG";
            Error::invalid(format!("no Kubernetes cluster is known here: {e}")).hint(hint)
        })?;
        Self::of(found, namespace, kind, name)
    }

    /// As [`WorkloadClient::connect`], with a configuration.
    ///
    /// # Errors
    /// Invalid when there can be no connection.
    pub(crate) fn of(mut config: Config, namespace: Option<String>, kind: Kind, name: &str) -> Result<Self> {
        config.read_timeout = Some(ANSWER_MAX);
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client =
            Client::try_from(config).map_err(|e| Error::invalid(format!("no connection to Kubernetes: {e}")))?;
        Ok(Self { client, namespace, kind, name: name.to_owned() })
    }

    /// Reads the workload.
    ///
    /// # Errors
    /// NotFound, PermissionDenied or Unavailable.
    pub(crate) async fn read(&self) -> Result<Workload> {
        self.ask(Request::get(self.path("status")), Vec::new()).await.map(Workload::of)
    }

    /// Sets the replicas.
    ///
    /// # Errors
    /// As [`WorkloadClient::read`], and Conflict.
    pub(crate) async fn scale(&self, replicas: u32) -> Result<()> {
        let patch = Request::patch(self.path("scale")).header("content-type", "application/merge-patch+json");
        let body = json!({"spec": {"replicas": replicas}}).to_string().into_bytes();
        self.ask(patch, body).await.map(drop)
    }

    /// Returns the cause of pods that are not ready.
    pub(crate) async fn why(&self, there: &Workload) -> String {
        let read = async |path: String| {
            self.ask(Request::get(path), Vec::new()).await.map_err(|error| error.message().to_owned())
        };
        let name = WorkloadName { namespace: &self.namespace, kind: &format!("{:?}", self.kind), name: &self.name };
        cause::why(name, &there.object, read).await
    }

    fn path(&self, part: &str) -> String {
        let Self { namespace, kind, name, .. } = self;
        format!("/apis/apps/v1/namespaces/{namespace}/{}/{name}/{part}", kind.plural())
    }

    async fn ask(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Value> {
        let request = request.body(body).map_err(|e| Error::invalid(format!("{self} cannot be asked for: {e}")))?;
        let what = format!("{} {}", request.method(), request.uri().path());
        let answer = tokio::time::timeout(ANSWER_MAX, self.client.request::<Value>(request)).await;
        let answer = answer.map_err(|_| {
            Error::unavailable(format!("Kubernetes did not answer within {} s: {what}", ANSWER_MAX.as_secs()))
        })?;
        answer.map_err(|e| self.refusal(e, &what))
    }

    /// Turns a failed request into an error with a hint.
    fn refusal(&self, error: kube::Error, what: &str) -> Error {
        let kube::Error::Api(status) = error else {
            return Error::unavailable(format!("Kubernetes does not answer: {what}: {}", innermost(&error)));
        };
        let said = if status.message.is_empty() { &status.reason } else { &status.message };
        let message = format!("Kubernetes refuses {what} ({}): {said}", status.code);
        match status.code {
            401 | 403 => Error::new(ErrorKind::PermissionDenied, message).hint(format!(
                "its service account needs get on {0}/status and patch on {0}/scale: docs/kubernetes.md",
                self.kind.plural()
            )),
            404 => Error::new(ErrorKind::NotFound, message).hint(format!("is there {self}?")),
            409 => Error::new(ErrorKind::Conflict, message),
            422 => Error::new(ErrorKind::Invalid, message),
            _ => Error::unavailable(message),
        }
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    forebay_proto::innermost(error)
}
