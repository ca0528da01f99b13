//! Which cache a pod uses, and the answer to the API server.

use std::time::Duration;

use serde_json::{Value, json};

use super::inject::{Injection, Waiter, inject};
use super::registration::Abilities;
use crate::api::validate::{mounted, named};
use crate::api::{CacheBackend, CacheBackendSpec};
use crate::caches::uses::{MOUNT_PATH, annotation, named_by, of_job};
use crate::cluster::Key;
use crate::cluster::objects::{CACHE_BACKENDS, Objects, PYTORCH_JOBS, TF_JOBS, controller, text};
use crate::engines::engine_of;

/// Where the data is mounted when nobody says it.
const MOUNT_PATH_DEFAULT: &str = "/data";
/// How long the API may take to tell of jobs and caches: the API server waits for the webhook meanwhile.
const ASKS_MAX: Duration = Duration::from_secs(4);

/// Answers the API server.
pub(crate) struct Admission {
    pub(crate) objects: Objects,
    pub(crate) abilities: Abilities,
    /// Image of the init container that waits, where the cluster has no gates.
    pub(crate) image: String,
}

/// A cache that a pod uses, and how its job's spec has it.
struct Used {
    cache: Key,
    of_job: Option<CacheBackendSpec>,
}

impl Admission {
    /// Returns the answer to an AdmissionReview of a pod.
    pub(crate) async fn review(&self, review: &Value) -> Value {
        let uid = text(review, "/request/uid");
        let pod = review.pointer("/request/object").unwrap_or(&Value::Null);
        let asked = tokio::time::timeout(ASKS_MAX, self.changed(pod, text(review, "/request/namespace"))).await;
        let late = || Err((503, "Kubernetes does not answer the operator in time; try again".to_owned()));
        let response = match asked.unwrap_or_else(|_| late()) {
            Ok(None) => json!({"uid": uid, "allowed": true}),
            Ok(Some(changed)) => {
                let operations = serde_json::to_vec(&json_patch::diff(pod, &changed)).unwrap_or_default();
                json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": base64(&operations)})
            }
            Err((code, message)) => json!({"uid": uid, "allowed": false, "status": {"code": code, "message": message}}),
        };
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    async fn changed(&self, pod: &Value, namespace: &str) -> Result<Option<Value>, (u16, String)> {
        let Some(used) = self.used(pod, namespace).await? else { return Ok(None) };
        let invalid = |message| (422, message);
        named(&used.cache.name).map_err(invalid)?;
        let path = CACHE_BACKENDS.one(Some(namespace), &used.cache.name);
        let cache = self.objects.find(&path).await.map_err(|refused| (503, refused.to_string()))?;
        let cache = cache.and_then(|cache| serde_json::from_value::<CacheBackend>(cache).ok());
        let spec = cache.as_ref().map(|c| &c.spec).or(used.of_job.as_ref());
        let told = annotation(pod, MOUNT_PATH).map(str::to_owned);
        let mount_path = told
            .or_else(|| used.of_job.as_ref().and_then(|spec| spec.mount_path.clone()))
            .or_else(|| spec.and_then(|spec| spec.mount_path.clone()))
            .unwrap_or_else(|| MOUNT_PATH_DEFAULT.to_owned());
        mounted(&mount_path).map_err(invalid)?;
        let waiter = if self.abilities.gates { Waiter::Gate } else { Waiter::Container(self.image.clone()) };
        let node_label = spec.and_then(engine_of).and_then(|engine| engine.node_label(&used.cache));
        let injection = Injection { cache: used.cache.name, mount_path, node_label, waiter };
        inject(pod, &injection).map(Some).map_err(invalid)
    }

    /// Returns the cache that the pod names, or that its job of KubeDL names.
    async fn used(&self, pod: &Value, namespace: &str) -> Result<Option<Used>, (u16, String)> {
        let named = named_by(pod).map(|name| Key::new(namespace, name));
        let owner = controller(pod);
        let kind = owner.and_then(|owner| {
            [TF_JOBS, PYTORCH_JOBS]
                .into_iter()
                .find(|k| k.kind == text(owner, "/kind") && k.api_version() == text(owner, "/apiVersion"))
        });
        let (Some(owner), Some(kind)) = (owner, kind) else {
            return Ok(named.map(|cache| Used { cache, of_job: None }));
        };
        let job = self.objects.find(&kind.one(Some(namespace), text(owner, "/name"))).await;
        let job = job.map_err(|refused| (503, refused.to_string()))?;
        let Some((name, spec)) =
            job.as_ref().filter(|job| text(job, "/metadata/uid") == text(owner, "/uid")).and_then(of_job)
        else {
            return Ok(named.map(|cache| Used { cache, of_job: None }));
        };
        let cache = named.unwrap_or_else(|| Key::new(namespace, name));
        Ok(Some(Used { cache, of_job: Some(spec) }))
    }
}

/// Base64 with padding: patches travel so.
pub(super) fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()))
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}
