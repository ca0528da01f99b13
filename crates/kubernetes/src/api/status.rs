//! The status of a CacheBackend: KubeDL's fields, which KubeDL's controllers read, and further fields.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The state of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum CacheStatus {
    /// The engine creates its objects
    CacheCreating,
    /// The engine has its objects; their claim is not bound yet
    #[serde(rename = "PVCCreating")]
    PvcCreating,
    /// Pods can mount the claim
    #[serde(rename = "PVCCreated")]
    PvcCreated,
    /// The cache cannot be created; the reason says why
    CacheFailed,
}

/// Status of a cache, which the operator writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CacheBackendStatus {
    /// Name of the engine
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_engine: Option<String>,
    /// State of the cache
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known_or_none")]
    #[schemars(with = "Option<CacheStatus>")]
    pub(crate) cache_status: Option<CacheStatus>,
    /// Reason of the state, in one word
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Reason of the state, in a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The job for which the operator created the cache, or the first job that uses it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job_name: Option<String>,
    /// Names of the jobs that use the cache, as KubeDL reads them; users has the same with kind and uid
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) used_by: Vec<String>,
    /// Number of users
    pub(crate) used_num: i64,
    /// The jobs, and pods without a job, that use the cache: at most 100 of them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) users: Vec<User>,
    /// Time since which the cache has no user; absent while it has users
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub(crate) last_used_time: Option<Time>,
    /// Cached data, as the engine reports it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached: Option<String>,
    /// Cached percentage of the data, as 36.8%
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached_percentage: Option<String>,
    /// Size of the data, as the engine reports it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<String>,
    /// Generation of the spec that this status describes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Ready, Cached (with cache nodes of the engine forebay), SpecConflict and Deleting
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// A user of a cache: a workload, or a pod without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct User {
    /// Kind of the object
    pub(crate) kind: String,
    /// Its namespace
    pub(crate) namespace: String,
    /// Its name
    pub(crate) name: String,
    /// Its uid
    pub(crate) uid: String,
    /// Its API version
    pub(crate) api_version: String,
}

/// A condition in the form of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    /// Type of the condition
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// True, False or Unknown
    pub(crate) status: String,
    /// Reason, in one word
    pub(crate) reason: String,
    /// Reason, in a sentence
    pub(crate) message: String,
    /// Generation of the spec that this condition describes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Time of the last change of the status
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub(crate) last_transition_time: Option<Time>,
}

impl CacheBackendStatus {
    /// Sets a condition. Its lastTransitionTime changes only with its status.
    pub(crate) fn set(&mut self, now: Timestamp, new: Condition) {
        set(&mut self.conditions, now, new);
    }

    /// Removes a condition.
    pub(crate) fn unset(&mut self, type_: &str) {
        self.conditions.retain(|c| c.type_ != type_);
    }

    /// Returns a condition.
    pub(crate) fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }
}

/// Sets one of these conditions. Its lastTransitionTime changes only with its status.
pub(crate) fn set(conditions: &mut Vec<Condition>, now: Timestamp, mut new: Condition) {
    let old = conditions.iter_mut().find(|c| c.type_ == new.type_);
    new.last_transition_time = match &old {
        Some(old) if old.status == new.status => old.last_transition_time.clone(),
        _ => Some(Time(whole(now))),
    };
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Truncates a time to whole seconds, the resolution of the API.
pub(crate) fn whole(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Reads an unknown state, which another program may have written, as `None`.
fn known_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<CacheStatus>, D::Error> {
    let word = Option::<serde_json::Value>::deserialize(from)?;
    Ok(word.and_then(|word| serde_json::from_value(word).ok()))
}

fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}
