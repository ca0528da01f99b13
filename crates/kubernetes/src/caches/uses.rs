//! Reads from one object which cache it uses. Pure.
//!
//! A pod uses the cache in its label, which the webhook writes. It counts as a use by its workload, if it has one. A
//! workload uses the cache of its `spec.cacheBackend` or its annotations from its creation to its end, with or without
//! pods. A Job also uses the cache of its pod template.

use serde_json::Value;

use super::declaration::{self, Declaration};
use crate::api::{CacheBackendSpec, User};
use crate::cluster::Key;
use crate::cluster::objects::{JOBS, Kind, PODS, controller_of, is_terminating, items, text};

/// Label and annotation with the name of the cache.
pub(crate) const CACHE: &str = "forebay.dev/cache";
/// Annotation of a pod: the mount path of the data.
pub(crate) const MOUNT_PATH: &str = "forebay.dev/cache-mount-path";
/// Annotation of a pod: the workload that declared its cache, as JSON.
pub(crate) const USER: &str = "forebay.dev/cache-user";
/// Annotation of a pod whose cache is ready.
pub(crate) const READY: &str = "forebay.dev/cache-ready";
/// The scheduling gate of a pod that waits for its cache.
pub(crate) const GATE: &str = "forebay.dev/cache";
/// Name of the init container that waits on clusters without scheduling gates.
pub(crate) const WAITER: &str = "forebay-cache-wait";
/// Longest part of a workload's name in the name of its own cache.
const JOB_MAX: usize = 50;

/// How a pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodWait {
    /// It does not wait, or not any more.
    None,
    /// By the scheduling gate at this index.
    Gate(usize),
    /// In an init container.
    InitContainer,
}

/// The cache that a workload defines, or refers to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredCache {
    pub(crate) spec: CacheBackendSpec,
    /// The workload gave no name: it owns the cache, which is garbage collected with it.
    pub(crate) is_own: bool,
    pub(crate) created: String,
}

/// One use of a cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) cache: Key,
    pub(crate) user: User,
    /// The object that was read: the workload, or a pod of it.
    pub(crate) object: User,
    pub(crate) wait: PodWait,
    pub(crate) desired: Option<DesiredCache>,
    /// The fault of the object's declaration.
    pub(crate) fault: Option<String>,
}

impl Use {
    /// Whether the object is a pod that mounts the volume, or may mount it at any moment.
    pub(crate) fn is_running_pod(&self) -> bool {
        self.object.kind == PODS.kind && self.wait == PodWait::None
    }
}

/// Returns the cache use of an object.
pub(crate) fn read(kind: Kind, object: &Value) -> Option<Use> {
    let object_is = reference(kind, object);
    if kind == PODS {
        return pod(object, object_is);
    }
    if is_terminating(object) || is_finished(object) {
        return None;
    }
    let of_template = || declaration::of_pod(object.pointer("/spec/template").filter(|_| kind == JOBS)?);
    let Declaration { name, spec, is_own } = of_job(object).or_else(of_template)?;
    let (desired, fault) = desired(spec, is_own, object);
    let cache = Key::new(object_is.namespace.clone(), name);
    Some(Use { cache, user: object_is.clone(), object: object_is, wait: PodWait::None, desired, fault })
}

fn desired(
    spec: Option<Result<CacheBackendSpec, String>>,
    is_own: bool,
    object: &Value,
) -> (Option<DesiredCache>, Option<String>) {
    let created = || text(object, "/metadata/creationTimestamp").to_owned();
    match spec {
        Some(Ok(spec)) => (Some(DesiredCache { spec, is_own, created: created() }), None),
        Some(Err(fault)) => (None, Some(fault)),
        None => (None, None),
    }
}

/// Returns the cache that a workload declares: by `spec.cacheBackend`, otherwise by annotations.
///
/// An unreadable `cacheBackend` counts as an empty one, so that the status of its cache names the missing fields.
pub(crate) fn of_job(job: &Value) -> Option<Declaration> {
    let Some(embedded) = job.pointer("/spec/cacheBackend").filter(|it| !it.is_null()) else {
        return declaration::of_job(job);
    };
    let mut spec: CacheBackendSpec = serde_json::from_value(embedded.clone()).unwrap_or_default();
    spec.name = spec.name.filter(|name| !name.is_empty());
    let is_own = spec.name.is_none();
    let name = spec.name.clone().unwrap_or_else(|| own_name(text(job, "/metadata/name"), text(job, "/metadata/uid")));
    Some(Declaration { name, spec: Some(Ok(spec)), is_own })
}

/// `cache-<workload>-<suffix>`. The suffix comes from the uid, so a later workload of the same name has its own cache.
pub(super) fn own_name(job: &str, uid: &str) -> String {
    let job: String = job.chars().map(|c| if c == '.' { '-' } else { c }).take(JOB_MAX).collect();
    let suffix: String = uid.chars().filter(char::is_ascii_alphanumeric).take(5).collect();
    format!("cache-{}-{suffix}", job.trim_end_matches('-'))
}

fn pod(pod: &Value, object: User) -> Option<Use> {
    let name = pod.pointer("/metadata/labels").and_then(|labels| labels.get(CACHE)).and_then(Value::as_str)?;
    if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        return None;
    }
    let owned = |owner| User {
        kind: text(owner, "/kind").to_owned(),
        api_version: text(owner, "/apiVersion").to_owned(),
        name: text(owner, "/name").to_owned(),
        uid: text(owner, "/uid").to_owned(),
        namespace: object.namespace.clone(),
    };
    let annotated: Option<User> = annotation(pod, USER).and_then(|annotated| serde_json::from_str(annotated).ok());
    let annotated = annotated.filter(|user| user.namespace == object.namespace && !user.uid.is_empty());
    let user = annotated.or_else(|| controller_of(pod).map(owned)).unwrap_or_else(|| object.clone());
    let gate = items(pod, "/spec/schedulingGates").iter().position(|gate| text(gate, "/name") == GATE);
    let has_waiter = items(pod, "/spec/initContainers").iter().any(|c| text(c, "/name") == WAITER);
    let wait = match gate {
        Some(at) => PodWait::Gate(at),
        None if has_waiter && annotation(pod, READY).is_none() => PodWait::InitContainer,
        None => PodWait::None,
    };
    let spec = declaration::of_pod(pod).and_then(|declared| declared.spec);
    let (desired, fault) = desired(spec, false, pod);
    Some(Use { cache: Key::new(object.namespace.clone(), name), user, object, wait, desired, fault })
}

/// Returns an annotation.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations").and_then(|all| all.get(name)).and_then(Value::as_str)
}

/// Returns the reference to an object in `status.users`.
pub(crate) fn reference(kind: Kind, object: &Value) -> User {
    User {
        kind: kind.kind.to_owned(),
        api_version: kind.api_version(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
    }
}

/// Jobs of KubeDL and Kubeflow end with the condition Succeeded or Failed; Jobs and TrainJobs with Complete or Failed;
/// JobSets with Completed or Failed. A RayJob has a field for it.
fn is_finished(job: &Value) -> bool {
    let is_end = |type_: &str| matches!(type_, "Succeeded" | "Failed" | "Complete" | "Completed");
    let ended = |c: &Value| text(c, "/status") == "True" && is_end(text(c, "/type"));
    items(job, "/status/conditions").iter().any(ended)
        || matches!(text(job, "/status/jobDeploymentStatus"), "Complete" | "Failed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::objects::TF_JOBS;

    #[test]
    fn a_job_uses_its_cache_until_it_ends_and_a_pod_counts_for_its_job() {
        let mut job = json!({"metadata": {"namespace": "ml", "name": "tf.cache", "uid": "12-345-678"}, "spec": {"cacheBackend": {}}});
        let own = read(TF_JOBS, &job).expect("it uses one");
        assert_eq!((own.cache.name.as_str(), own.desired.map(|w| w.is_own)), ("cache-tf-cache-12345", Some(true)));
        job["spec"]["cacheBackend"]["name"] = json!("shared");
        assert_eq!(read(TF_JOBS, &job).map(|u| u.cache.name).as_deref(), Some("shared"));
        job["status"] = json!({"conditions": [{"type": "Succeeded", "status": "True"}]});
        assert_eq!(read(TF_JOBS, &job), None);

        let mut pod = json!({
            "metadata": {
                "namespace": "ml", "name": "p", "uid": "u", "labels": {CACHE: "shared"},
                "ownerReferences": [{"kind": "TFJob", "apiVersion": "training.kubedl.io/v1alpha1", "name": "t", "uid": "9", "controller": true}],
            },
            "spec": {"schedulingGates": [{"name": "other"}, {"name": GATE}]},
        });
        let of_pod = read(PODS, &pod).expect("it uses one");
        assert_eq!(
            (of_pod.user.kind.as_str(), of_pod.user.uid.as_str(), of_pod.wait),
            ("TFJob", "9", PodWait::Gate(1))
        );
        assert!(!of_pod.is_running_pod());
        let user =
            User { kind: "JobSet".to_owned(), uid: "3".to_owned(), namespace: "ml".to_owned(), ..User::default() };
        pod["metadata"]["annotations"] = json!({USER: serde_json::to_string(&user).expect("JSON")});
        assert_eq!(read(PODS, &pod).map(|u| u.user), Some(user));
        pod["status"] = json!({"phase": "Failed"});
        assert_eq!(read(PODS, &pod), None);
    }
}
