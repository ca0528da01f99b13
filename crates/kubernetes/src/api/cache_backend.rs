//! The spec of a CacheBackend: KubeDL's fields with KubeDL's names, and `forebay`, `minCachedPercent` and two more
//! runtimes of Fluid.
//!
//! All fields are optional here, because jobs embed the same struct and objects may be older than the schema.
//! [`super::validate`] reports missing fields.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::service::objects;
use super::status::CacheBackendStatus;

/// A cache of a data set, made before the pods of the jobs that name it run
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cache.kubedl.io",
    version = "v1alpha1",
    kind = "CacheBackend",
    plural = "cachebackends",
    singular = "cachebackend",
    namespaced,
    status = "CacheBackendStatus",
    doc = "A cache of a data set, made before the pods of the jobs that name it run",
    printcolumn = r#"{"name":"Job-Name","type":"string","jsonPath":".status.jobName"}"#,
    printcolumn = r#"{"name":"Cache-Status","type":"string","jsonPath":".status.cacheStatus"}"#,
    printcolumn = r#"{"name":"Engine","type":"string","jsonPath":".status.cacheEngine"}"#,
    printcolumn = r#"{"name":"Used-Num","type":"integer","jsonPath":".status.usedNum"}"#,
    printcolumn = r#"{"name":"Last-Used-Time","type":"date","jsonPath":".status.lastUsedTime"}"#,
    printcolumn = r#"{"name":"Cached","type":"string","jsonPath":".status.cachedPercentage"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.reason","priority":1}"#
)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CacheBackendSpec {
    /// In a job: name of the CacheBackend that the job uses; in a CacheBackend: without effect
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Absolute path under which containers find the data [default: /data]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^/"), length(max = 1024))]
    pub(crate) mount_path: Option<String>,
    /// Data to cache
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dataset: Option<Dataset>,
    /// Engine of the cache: exactly one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_engine: Option<Engine>,
    /// When the cache is ready, and when the operator deletes it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) options: Option<Options>,
}

/// The cached data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Dataset {
    /// Sources; each has its own folder under the mount path
    #[schemars(length(min = 1, max = 64))]
    pub(crate) data_sources: Vec<DataSource>,
}

/// One source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DataSource {
    /// Location of the data: scheme://path, as s3://bucket/folder, local:///folder or pvc://claim/folder
    #[schemars(regex(pattern = r"^[a-z][a-z0-9+.-]*://.+"), length(max = 2048))]
    pub(crate) location: String,
    /// Folder of the data under the mount path
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_]([A-Za-z0-9_.-]*)$"), length(max = 255))]
    pub(crate) sub_dir_name: Option<String>,
}

/// The engine: exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Engine {
    /// Fluid: a Dataset and one runtime
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fluid: Option<Fluid>,
    /// Forebay's own: a volume of the CSI driver csi.forebay.dev
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forebay: Option<Forebay>,
}

/// The runtime of Fluid: exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Fluid {
    /// Alluxio
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alluxio_runtime: Option<FluidRuntime>,
    /// JuiceFS
    #[serde(rename = "juicefsRuntime", skip_serializing_if = "Option::is_none")]
    pub(crate) juicefs_runtime: Option<FluidRuntime>,
    /// Jindo
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jindo_runtime: Option<FluidRuntime>,
}

/// The cache workers of a runtime of Fluid, and their storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FluidRuntime {
    /// Number of cache workers [default: 1]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub(crate) replicas: Option<i32>,
    /// Storage tiers of a cache worker
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub(crate) tiered_storage: Vec<Tier>,
}

/// Forebay's own engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Forebay {
    /// Storage tiers of a node
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub(crate) tiered_storage: Vec<Tier>,
    /// Whether a node reads all remote files into its tier once it has a pod, after the reads of pods [default: false]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) prefetch: bool,
    /// Cache nodes: nodes that read all remote files into their tiers before pods of jobs run, as prefetch does on the nodes
    /// of these pods [default: 1 with options.minCachedPercent, otherwise 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub(crate) replicas: Option<i32>,
    /// Labels of the nodes that may be cache nodes
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Taints that the pods of cache nodes tolerate, as in a pod
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects")]
    pub(crate) tolerations: Vec<Value>,
}

/// A storage tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Tier {
    /// Absolute path on the node; Fluid accepts several, separated by commas
    #[schemars(regex(pattern = r"^/"), length(max = 4096))]
    pub(crate) cache_path: String,
    /// Capacity, as a quantity of Kubernetes: 1Gi, 500M
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE]|[eE][0-9]+)?$"), length(max = 32))]
    pub(crate) quota: String,
    /// Medium of the tier
    pub(crate) medium_type: Medium,
}

/// The medium of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Medium {
    /// Memory
    #[default]
    Mem,
    /// A solid state disk
    Ssd,
    /// A hard disk
    Hdd,
}

/// When the cache is ready, and when the operator deletes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Options {
    /// Seconds without a user after which the cache is deleted; 0: never [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) idle_time: Option<i64>,
    /// Percentage of the data that must be cached before pods run [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub(crate) min_cached_percent: Option<i32>,
}

impl CacheBackendSpec {
    /// The idle time in seconds; `None` if the operator never deletes the cache.
    pub(crate) fn idle_seconds(&self) -> Option<i64> {
        self.options.as_ref().and_then(|o| o.idle_time).filter(|seconds| *seconds > 0)
    }

    /// Percentage that must be cached before pods run.
    pub(crate) fn min_cached(&self) -> f64 {
        f64::from(self.options.as_ref().and_then(|o| o.min_cached_percent).unwrap_or(0))
    }

    /// The sources; empty without a data set.
    pub(crate) fn sources(&self) -> &[DataSource] {
        self.dataset.as_ref().map_or(&[], |dataset| dataset.data_sources.as_slice())
    }

    /// Whether this spec defines a cache; a workload may also refer to an existing one by name.
    pub(crate) fn is_definition(&self) -> bool {
        self.dataset.is_some() && self.cache_engine.is_some()
    }

    /// Whether both specs have the same data and engine.
    pub(crate) fn is_same_cache(&self, other: &Self) -> bool {
        self.dataset == other.dataset && self.cache_engine == other.cache_engine
    }
}
