//! The status of a ForebayService.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Condition;

/// Status of a service, which the operator writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceStatus {
    /// Generation of the spec that this status describes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Address for trainers in the cluster: forebay://NAME.NAMESPACE.svc:7070
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Ready and desired dispatchers: 1/1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dispatchers_ready: Option<String>,
    /// Ready and desired workers: 3/5
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers_ready: Option<String>,
    /// Workers that the dispatcher wants; absent while it does not know
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers_wanted: Option<String>,
    /// Reason, in one word, why the service differs from its spec; absent when it does not
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Workers by type
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<WorkerTypeStatus>,
    /// Ready, Progressing and Degraded
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// The workers of one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkerTypeStatus {
    /// Name of the type
    pub(crate) name: String,
    /// Workers that the dispatcher wants; absent while it does not know
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wanted: Option<u32>,
    /// Desired replicas
    pub(crate) replicas: u32,
    /// Ready replicas
    pub(crate) ready: u32,
    /// Replicas with the current spec
    pub(crate) updated: u32,
}
