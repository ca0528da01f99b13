//! What the operator tells of a cache: KubeDL's fields, which KubeDL's own controllers read, and what they lack.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Where a cache is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum CacheStatus {
    /// The engine makes its objects
    CacheCreating,
    /// The engine has its objects; their claim is not bound yet
    #[serde(rename = "PVCCreating")]
    PvcCreating,
    /// Pods can mount the claim
    #[serde(rename = "PVCCreated")]
    PvcCreated,
    /// The cache cannot be made; the reason says why
    CacheFailed,
}

/// What the operator tells of a cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CacheBackendStatus {
    /// Name of the engine
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_engine: Option<String>,
    /// Where the cache is on its way
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known_or_none")]
    #[schemars(with = "Option<CacheStatus>")]
    pub(crate) cache_status: Option<CacheStatus>,
    /// Why it is there, in one word
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Why it is there, in a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The job for which the cache was made, or the first of those that use it
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
    /// Since when nobody uses the cache; absent while somebody does
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub(crate) last_used_time: Option<Time>,
    /// How much is cached, as the engine says it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached: Option<String>,
    /// How much of the data is cached, as 36.8%
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached_percentage: Option<String>,
    /// Size of the data, as the engine says it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<String>,
    /// The generation of the spec that this tells of
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Ready, SpecConflict and Deleting
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// One who uses a cache.
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

/// A condition, as Kubernetes has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    /// What is told
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// True, False or Unknown
    pub(crate) status: String,
    /// Why, in one word
    pub(crate) reason: String,
    /// Why, in a sentence
    pub(crate) message: String,
    /// The generation of the spec that this tells of
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Since when the status is what it is
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "date_time")]
    pub(crate) last_transition_time: Option<Time>,
}

impl CacheBackendStatus {
    /// Sets a condition; its time changes with its status alone.
    pub(crate) fn set(&mut self, now: Timestamp, told: Condition) {
        set(&mut self.conditions, now, told);
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

/// Sets one of these conditions; its time changes with its status alone.
pub(crate) fn set(conditions: &mut Vec<Condition>, now: Timestamp, mut told: Condition) {
    let old = conditions.iter_mut().find(|c| c.type_ == told.type_);
    told.last_transition_time = match &old {
        Some(old) if old.status == told.status => old.last_transition_time.clone(),
        _ => Some(Time(whole(now))),
    };
    match old {
        Some(old) => *old = told,
        None => conditions.push(told),
    }
}

/// Returns the time in whole seconds, as the API keeps it.
pub(crate) fn whole(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// A status that another program wrote may hold words that are not ours.
fn known_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<CacheStatus>, D::Error> {
    let word = Option::<serde_json::Value>::deserialize(from)?;
    Ok(word.and_then(|word| serde_json::from_value(word).ok()))
}

fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}
