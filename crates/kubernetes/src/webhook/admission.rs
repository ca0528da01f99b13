//! Finds the cache that a pod uses, and answers the API server's AdmissionReview.

use std::time::Duration;

use serde_json::{Value, json};

use super::inject::{Injection, Waiter, inject};
use super::registration::Capabilities;
use crate::api::validate::{mounted, named};
use crate::api::{CacheBackend, CacheBackendSpec, User};
use crate::caches::declaration::{self, Declaration};
use crate::caches::uses::{MOUNT_PATH, annotation, of_job, reference};
use crate::caches::{INTERMEDIATES, WORKLOADS};
use crate::cluster::Key;
use crate::cluster::objects::{ApiClient, CACHE_BACKENDS, Kind, PYTORCH_JOBS, TF_JOBS, controller_of, text};
use crate::engines::engine_of;

/// Default mount path.
const MOUNT_PATH_DEFAULT: &str = "/data";
/// Timeout for the requests of one review; the API server waits meanwhile.
const REVIEW_MAX: Duration = Duration::from_secs(4);

/// Answers AdmissionReviews.
pub(crate) struct Admission {
    pub(crate) api: ApiClient,
    pub(crate) capabilities: Capabilities,
    /// Image of the init container that waits on clusters without scheduling gates.
    pub(crate) image: String,
}

/// Longest chain of owners from a pod to the workload that declares its cache.
const OWNERS_MAX: usize = 4;

/// A pod's cache, the declared spec, and the workload that declared it; `None` if the pod did.
struct CacheUse {
    cache: Key,
    spec: Option<CacheBackendSpec>,
    declared_by: Option<User>,
}

impl Admission {
    /// Returns the response to an AdmissionReview of a pod.
    pub(crate) async fn review(&self, review: &Value) -> Value {
        let uid = text(review, "/request/uid");
        let pod = review.pointer("/request/object").unwrap_or(&Value::Null);
        let changed = tokio::time::timeout(REVIEW_MAX, self.changed(pod, text(review, "/request/namespace"))).await;
        let late = || Err((503, "Kubernetes does not answer the operator in time; try again".to_owned()));
        let response = match changed.unwrap_or_else(|_| late()) {
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
        let path = CACHE_BACKENDS.object_path(Some(namespace), &used.cache.name);
        let cache = self.api.find(&path).await.map_err(|error| (503, error.to_string()))?;
        let cache = cache.and_then(|cache| serde_json::from_value::<CacheBackend>(cache).ok());
        let spec = cache.as_ref().map(|c| &c.spec).or(used.spec.as_ref());
        let annotated = annotation(pod, MOUNT_PATH).map(str::to_owned);
        let mount_path = annotated
            .or_else(|| used.spec.as_ref().and_then(|spec| spec.mount_path.clone()))
            .or_else(|| spec.and_then(|spec| spec.mount_path.clone()))
            .unwrap_or_else(|| MOUNT_PATH_DEFAULT.to_owned());
        mounted(&mount_path).map_err(invalid)?;
        let waiter = if self.capabilities.gates { Waiter::Gate } else { Waiter::Container(self.image.clone()) };
        let nodes = spec.and_then(|spec| engine_of(spec)?.preferred_nodes(&used.cache, spec));
        let user = used.declared_by.and_then(|user| serde_json::to_string(&user).ok());
        let injection = Injection { cache: used.cache.name, mount_path, nodes, waiter, user };
        inject(pod, &injection).map(Some).map_err(invalid)
    }

    /// Returns the cache that the pod declares, otherwise the cache of its nearest owner with a declaration.
    async fn used(&self, pod: &Value, namespace: &str) -> Result<Option<CacheUse>, (u16, String)> {
        let of_pod = declaration::of_pod(pod);
        let is_of_kubedl =
            controller_of(pod).and_then(known).is_some_and(|kind| [TF_JOBS, PYTORCH_JOBS].contains(&kind));
        // The job of KubeDL also gives the mount path of the cache that its pod declares.
        let of_owner = match &of_pod {
            Some(_) if !is_of_kubedl => None,
            _ => self.of_owner(pod, namespace).await?,
        };
        let (declared_by, of_owner) = of_owner.unzip();
        let declared_by = declared_by.filter(|_| of_pod.is_none());
        let spec = [&of_pod, &of_owner].into_iter().flatten().find_map(|declared| declared.spec.clone());
        let spec = spec.transpose().map_err(|wrong| (422, wrong))?;
        let name = of_pod.or(of_owner).map(|declared| declared.name);
        Ok(name.map(|name| CacheUse { cache: Key::new(namespace, name), spec, declared_by }))
    }

    /// Follows the controller references upwards to the first owner that declares a cache.
    async fn of_owner(&self, pod: &Value, namespace: &str) -> Result<Option<(User, Declaration)>, (u16, String)> {
        let mut owned = pod.clone();
        for _ in 0..OWNERS_MAX {
            let Some((owner, kind)) = controller_of(&owned).and_then(|owner| Some((owner, known(owner)?))) else {
                break;
            };
            let found = self.api.find(&kind.object_path(Some(namespace), text(owner, "/name"))).await;
            let found = found.map_err(|error| (503, error.to_string()))?;
            let Some(object) = found.filter(|object| text(object, "/metadata/uid") == text(owner, "/uid")) else {
                break;
            };
            if let Some(declared) = of_job(&object) {
                return Ok(Some((reference(kind, &object), declared)));
            }
            owned = object;
        }
        Ok(None)
    }
}

/// The kind of an owner if it may declare a cache, or stand between such an owner and its pods.
fn known(owner: &Value) -> Option<Kind> {
    let is = |kind: &Kind| kind.kind == text(owner, "/kind") && kind.api_version() == text(owner, "/apiVersion");
    WORKLOADS.into_iter().chain(INTERMEDIATES).find(is)
}

/// Base64 with padding, the encoding of patches and CA bundles.
pub(super) fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()))
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}
