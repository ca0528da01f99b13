//! The pod spec of dispatchers and workers: security context, environment, volumes, probes and termination.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::manifest::Owner;

/// Mount paths of Secrets.
pub(super) const TLS_FOLDER: &str = "/etc/forebay/tls";
pub(super) const TOKENS_FOLDER: &str = "/etc/forebay/tokens";
/// User and group of the pods: any id other than root's.
const USER: u32 = 65_532;
/// terminationGracePeriodSeconds. A worker serves its buffered chunks for at most 10 s, then writes its cached rows.
const END_SECONDS: u32 = 30;
/// Seconds until a process must listen, and until an unresponsive process is restarted.
const START_SECONDS: u32 = 300;
const SILENT_SECONDS: u32 = 60;

/// The container of a role, and its node constraints.
pub(super) struct Pod<'a> {
    pub(super) role: &'static str,
    pub(super) args: Vec<String>,
    /// Ports of the service and of the metrics.
    pub(super) ports: (u16, u16),
    pub(super) volumes: Vec<Value>,
    pub(super) mounts: Vec<Value>,
    /// Key in the Secret of tokens.
    pub(super) token: &'static str,
    pub(super) resources: Option<&'a Value>,
    pub(super) node_selector: &'a BTreeMap<String, String>,
    pub(super) tolerations: &'a [Value],
}

impl Pod<'_> {
    /// Returns the pod's spec.
    pub(super) fn spec(self, owner: &Owner<'_>) -> Value {
        let (spec, (port, metrics)) = (owner.spec, self.ports);
        let (mut volumes, mut mounts) = (self.volumes, self.mounts);
        volumes.push(json!({"name": "tmp", "emptyDir": {}}));
        mounts.push(json!({"name": "tmp", "mountPath": "/tmp"}));
        if let Some(tls) = &spec.tls {
            volumes.push(json!({"name": "tls", "secret": {"secretName": tls.secret_name}}));
            mounts.push(json!({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": true}));
        }
        if let Some(tokens) = &spec.tokens {
            let key = json!([{"key": self.token, "path": self.token}]);
            volumes.push(json!({"name": "tokens", "secret": {"secretName": tokens.secret_name, "items": key}}));
            mounts.push(json!({"name": "tokens", "mountPath": TOKENS_FOLDER, "readOnly": true}));
        }
        volumes.extend(spec.volumes.iter().cloned());
        mounts.extend(spec.volume_mounts.iter().cloned());
        let mut env = vec![
            json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            json!({"name": "HOME", "value": "/tmp"}),
        ];
        env.extend(spec.env.iter().cloned());
        let socket = |period: u32, seconds: u32| {
            let failures = seconds / period;
            json!({"tcpSocket": {"port": "forebay"}, "periodSeconds": period, "failureThreshold": failures})
        };
        let mut container = json!({
            "name": self.role, "image": spec.image, "command": ["forebay", self.role], "args": self.args, "env": env,
            "ports": [
                {"name": "forebay", "containerPort": port, "protocol": "TCP"},
                {"name": "metrics", "containerPort": metrics, "protocol": "TCP"},
            ],
            "volumeMounts": mounts,
            "startupProbe": socket(2, START_SECONDS),
            "readinessProbe": socket(5, 15),
            "livenessProbe": socket(10, SILENT_SECONDS),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
        });
        if let Some(resources) = self.resources {
            container["resources"] = with_texts(resources);
        }
        let mut pod = json!({
            "containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": END_SECONDS,
            // Variables of Services would be taken for options of forebay.
            "enableServiceLinks": false,
            "automountServiceAccountToken": spec.service_account_name.is_some(),
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        });
        if let Some(account) = &spec.service_account_name {
            pod["serviceAccountName"] = json!(account);
        }
        if !spec.image_pull_secrets.is_empty() {
            let names: Vec<_> = spec.image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
            pod["imagePullSecrets"] = json!(names);
        }
        if !self.node_selector.is_empty() {
            pod["nodeSelector"] = json!(self.node_selector);
        }
        if !self.tolerations.is_empty() {
            pod["tolerations"] = json!(self.tolerations);
        }
        pod
    }
}

/// Writes quantities as strings, as the API stores them: `cpu: 8` becomes `"8"`.
fn with_texts(resources: &Value) -> Value {
    match resources {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), with_texts(value))).collect(),
        Value::Number(number) => json!(number.to_string()),
        other => other.clone(),
    }
}
