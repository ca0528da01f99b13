//! Lets the pods of a ready cache run. A pod that is created later is gated too, and the next reconcile ungates it.

use serde_json::{Value, json};

use super::Context;
use super::inline::object_reference;
use super::uses::{GATE, PodWait, READY, Use};
use crate::cluster::objects::{ApiResult, PODS};

/// Removes the scheduling gates of a cache's pods; annotates pods that wait in an init container.
///
/// # Errors
/// When the API does not answer, or reports a conflict.
pub(crate) async fn ungate(context: &Context, uses: &[Use]) -> ApiResult<()> {
    for pod in uses.iter().filter(|u| u.wait != PodWait::None) {
        let path = PODS.object_path(Some(&pod.object.namespace), &pod.object.name);
        let done = match pod.wait {
            PodWait::Gate(at) => context.api.patch(&path, &without_gate(&pod.object.uid, at)).await,
            _ => {
                let ready = json!({"metadata": {"uid": pod.object.uid, "annotations": {READY: "true"}}});
                context.api.merge(&path, &ready).await
            }
        };
        match done {
            Ok(_) => {
                context.events.normal(&object_reference(&pod.object), "CacheReady", "the pod's cache is ready").await
            }
            Err(error) if error.is_not_found() => {}
            // The gate has moved in the list, or is gone. The pod's watch event queues the cache again.
            Err(error) if error.code == 422 => {
                tracing::debug!(pod = pod.object.name, error = %error, "the pod changed meanwhile");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn without_gate(uid: &str, at: usize) -> Value {
    let at = format!("/spec/schedulingGates/{at}");
    json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": format!("{at}/name"), "value": GATE},
        {"op": "remove", "path": at},
    ])
}
