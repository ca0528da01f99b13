//! Lets pods run whose cache is ready. A pod that is made later waits as well, and is let run at the next look.

use serde_json::{Value, json};

use super::Context;
use super::inline::reference;
use super::uses::{GATE, READY, Use, Waits};
use crate::cluster::objects::{Answer, PODS};

/// Lets the waiting pods of a cache run.
///
/// # Errors
/// When the API does not answer, or a pod changed meanwhile.
pub(crate) async fn release(context: &Context, uses: &[Use]) -> Answer<()> {
    for pod in uses.iter().filter(|u| u.waits != Waits::No) {
        let path = PODS.one(Some(&pod.object.namespace), &pod.object.name);
        let done = match pod.waits {
            Waits::Gate(at) => context.objects.patch(&path, &without_gate(&pod.object.uid, at)).await,
            _ => {
                let ready = json!({"metadata": {"uid": pod.object.uid, "annotations": {READY: "true"}}});
                context.objects.merge(&path, &ready).await
            }
        };
        match done {
            Ok(_) => context.events.say(&reference(&pod.object), "CacheReady", "the pod's cache is ready").await,
            Err(refused) if refused.is_not_found() => {}
            // The gate is at another place, or gone: the watch tells.
            Err(refused) if refused.code == 422 => {
                tracing::debug!(pod = pod.object.name, error = %refused, "the pod changed meanwhile");
            }
            Err(refused) => return Err(refused),
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
