//! What the operator tells of a service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Condition;

/// What the operator tells of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceStatus {
    /// The generation of the spec that this tells of
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Where trainers of the cluster connect: forebay://NAME.NAMESPACE.svc:7070
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Dispatchers that are ready, of those that there should be: 1/1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dispatchers_ready: Option<String>,
    /// Workers that are ready, of those that there should be: 3/5
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers_ready: Option<String>,
    /// Workers that the dispatcher wants; absent while it does not know
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers_wanted: Option<String>,
    /// Why it is not as it should be, in one word; absent when it is
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Workers by type
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<WorkerTypeStatus>,
    /// Ready, Progressing and Degraded
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// Workers of one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkerTypeStatus {
    /// Name of the type
    pub(crate) name: String,
    /// How many the dispatcher wants; absent while it does not know
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wanted: Option<u32>,
    /// How many there should be
    pub(crate) replicas: u32,
    /// How many are ready
    pub(crate) ready: u32,
    /// How many have the spec of now
    pub(crate) updated: u32,
}
