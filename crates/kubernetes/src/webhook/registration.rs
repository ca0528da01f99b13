//! The MutatingWebhookConfiguration: which pods the API server sends to the webhook, and its failure policy.
//!
//! | webhook | pods | failure policy |
//! |---|---|---|
//! | labelled | with the label of a cache | Fail: the pod's controller retries |
//! | annotated | with an annotation of a cache, or owned by a job of KubeDL | Fail |
//! | owned | whose owner may declare a cache; most use none | Ignore |
//!
//! The last two need match conditions (Kubernetes 1.28). Earlier API servers send all pods without the label to
//! `annotated`, with the policy Ignore, and there is no `owned`. The API server sends no other pods.

use serde_json::{Value, json};

use super::admission::base64;
use crate::caches::declaration::SPEC;
use crate::caches::uses::CACHE;
use crate::caches::{INTERMEDIATES, WORKLOADS};
use crate::cluster::objects::{ApiClient, ApiResult, Kind, PYTORCH_JOBS, TF_JOBS};

/// Name of the configuration.
const NAME: &str = "forebay-operator";
/// Timeout of the API server for the webhook.
const TIMEOUT_SECONDS: u32 = 6;
/// Path of the webhook.
pub(super) const PATH: &str = "/pods";

/// Features of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Scheduling gates of pods: 1.27.
    pub(crate) gates: bool,
    /// Match conditions of webhooks: 1.28.
    pub(crate) conditions: bool,
    /// PodDisruptionBudgets in `policy/v1`: 1.21.
    pub(crate) budgets: bool,
}

impl Capabilities {
    /// Features of an API server of this version; `minor` may end in `+`.
    pub(crate) fn of(major: &str, minor: &str) -> Self {
        let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap_or(0);
        let version = (number(major), number(minor));
        Self { gates: version >= (1, 27), conditions: version >= (1, 28), budgets: version >= (1, 21) }
    }
}

/// The address at which the API server calls the webhook.
#[derive(Clone, Debug)]
pub(crate) enum WebhookAddress {
    /// A Service.
    Service { namespace: String, name: String },
    /// A URL without a path.
    Url(String),
}

/// Applies the MutatingWebhookConfiguration.
///
/// # Errors
/// When the API rejects the request, or does not answer.
pub(super) async fn register(
    api: &ApiClient,
    address: &WebhookAddress,
    capabilities: Capabilities,
    authority: &str,
) -> ApiResult<()> {
    let configuration = configuration(address, capabilities, authority);
    api.apply(&format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"), &configuration)
        .await
        .map(drop)
}

fn configuration(address: &WebhookAddress, capabilities: Capabilities, authority: &str) -> Value {
    let mut client = match address {
        WebhookAddress::Service { namespace, name } => {
            json!({"service": {"namespace": namespace, "name": name, "path": PATH, "port": 443}})
        }
        WebhookAddress::Url(url) => json!({"url": format!("{url}{PATH}")}),
    };
    client["caBundle"] = json!(base64(authority.as_bytes()));
    let webhook = |name: &str, policy: &str, operator: &str| {
        json!({
            "name": format!("{name}.cache.forebay.dev"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": client, "failurePolicy": policy, "timeoutSeconds": TIMEOUT_SECONDS, "reinvocationPolicy": "IfNeeded",
            "objectSelector": {"matchExpressions": [{"key": CACHE, "operator": operator}]},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced"}],
        })
    };
    let labelled = webhook("labelled", "Fail", "Exists");
    let mut others = webhook("annotated", if capabilities.conditions { "Fail" } else { "Ignore" }, "DoesNotExist");
    if capabilities.conditions {
        let has = |name: &str| format!("has(object.metadata.annotations) && '{name}' in object.metadata.annotations");
        let annotated = format!("({}) || ({})", has(CACHE), has(SPEC));
        let of_kubedl = format!("{annotated} || ({})", owned_by(&[TF_JOBS, PYTORCH_JOBS]));
        others["matchConditions"] = json!([{"name": "uses-a-cache", "expression": of_kubedl}]);
    }
    let mut webhooks = vec![labelled, others];
    if capabilities.conditions {
        let mut owned = webhook("owned", "Ignore", "DoesNotExist");
        let kinds: Vec<Kind> =
            WORKLOADS.into_iter().chain(INTERMEDIATES).filter(|k| ![TF_JOBS, PYTORCH_JOBS].contains(k)).collect();
        owned["matchConditions"] = json!([{"name": "may-inherit-a-cache", "expression": owned_by(&kinds)}]);
        webhooks.push(owned);
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME}, "webhooks": webhooks,
    })
}

/// The match condition for pods that an object of one of these kinds owns.
fn owned_by(kinds: &[Kind]) -> String {
    let is = |k: &Kind| format!("(o.apiVersion == '{}' && o.kind == '{}')", k.api_version(), k.kind);
    let any = kinds.iter().map(is).collect::<Vec<_>>().join(" || ");
    format!("has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, {any})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_servers_version_decides_the_failure_policy() {
        let of = |major, minor| {
            let can = Capabilities::of(major, minor);
            let at = WebhookAddress::Url("https://127.0.0.1:1".to_owned());
            let annotated = configuration(&at, can, "ca")["webhooks"][1].clone();
            (can.gates, can.conditions, annotated["failurePolicy"].clone(), annotated["matchConditions"].is_array())
        };
        assert_eq!(of("1", "20"), (false, false, json!("Ignore"), false));
        assert_eq!(of("1", "27+"), (true, false, json!("Ignore"), false));
        assert_eq!(of("1", "36"), (true, true, json!("Fail"), true));
        assert_eq!(of("", "x"), (false, false, json!("Ignore"), false));
    }
}
