//! The engine Fluid: a Dataset and one runtime with the cache's name, as KubeDL creates them. Fluid creates the volume
//! and the claim.

use serde_json::{Value, json};

use super::prefetch_progress::CacheNodes;
use super::{Child, Engine, EngineSettings, PreferredNodes, Prerequisite, Progress};
use crate::api::{CacheBackend, CacheBackendSpec, FluidRuntime};
use crate::cluster::Key;
use crate::cluster::objects::{Kind, kind, text};

pub(crate) const DATASETS: Kind = kind("data.fluid.io", "v1alpha1", "Dataset", "datasets");
pub(crate) const ALLUXIO: Kind = kind("data.fluid.io", "v1alpha1", "AlluxioRuntime", "alluxioruntimes");
pub(crate) const JUICEFS: Kind = kind("data.fluid.io", "v1alpha1", "JuiceFSRuntime", "juicefsruntimes");
pub(crate) const JINDO: Kind = kind("data.fluid.io", "v1alpha1", "JindoRuntime", "jindoruntimes");

/// Longest label name that Fluid writes without hashing it.
const LABEL_MAX: usize = 63;

/// See the module's documentation.
pub(crate) struct Fluid;

impl Engine for Fluid {
    fn name(&self) -> &'static str {
        "fluid"
    }

    fn validate(&self, cache: &CacheBackend) -> Result<(), String> {
        match runtime(cache) {
            Some((_, runtime)) if runtime.tiered_storage.is_empty() => {
                Err("a runtime of Fluid needs tieredStorage: name at least one cachePath with its quota".to_owned())
            }
            Some(_) => Ok(()),
            None => Err("spec.cacheEngine.fluid names no runtime".to_owned()),
        }
    }

    fn prerequisite(&self) -> Option<Prerequisite> {
        None
    }

    fn children(&self, cache: &CacheBackend, _: &EngineSettings) -> Vec<Child> {
        let Some((kind, runtime)) = runtime(cache) else { return Vec::new() };
        let name = cache.metadata.name.clone().unwrap_or_default();
        let mounts: Vec<_> = cache
            .spec
            .sources()
            .iter()
            .map(|source| {
                let mut mount = json!({"mountPoint": source.location});
                if let Some(folder) = &source.sub_dir_name {
                    mount["name"] = json!(folder);
                }
                mount
            })
            .collect();
        let levels = runtime.tiered_storage.iter();
        let levels: Vec<_> = levels
            .map(|tier| json!({"path": tier.cache_path, "quota": tier.quota, "mediumtype": tier.medium_type}))
            .collect();
        let child = |kind, spec| Child {
            kind,
            namespace: cache.metadata.namespace.clone(),
            name: name.clone(),
            spec,
            can_change: true,
            kept: None,
            exact: &[],
            is_wanted: true,
        };
        let replicas = runtime.replicas.unwrap_or(1);
        vec![
            child(DATASETS, json!({"mounts": mounts})),
            child(kind, json!({"replicas": replicas, "tieredstore": {"levels": levels}})),
        ]
    }

    fn cache_nodes(&self, _: &CacheBackend) -> u32 {
        0
    }

    fn not_installed(&self) -> &'static str {
        "Fluid is not installed, or lacks this runtime: install it, or use cacheEngine.forebay"
    }

    fn is_claim(&self, _: &str, claim: &Value) -> bool {
        text(claim, "/metadata/annotations/CreatedBy") == "fluid" || text(claim, "/spec/storageClassName") == "fluid"
    }

    fn progress(&self, _: &CacheBackend, children: &[Value], _: &CacheNodes) -> Progress {
        let Some(dataset) = children.iter().find(|child| text(child, "/kind") == DATASETS.kind) else {
            return Progress::default();
        };
        let field = |at| Some(text(dataset, at).to_owned()).filter(|text| !text.is_empty());
        let not_ready = match text(dataset, "/status/phase") {
            "Bound" | "Updating" | "DataMigrating" => None,
            "Failed" => Some(("DatasetFailed", "Fluid says that the Dataset failed: kubectl describe dataset")),
            _ => Some(("DatasetNotBound", "Fluid has not bound the Dataset to its runtime yet")),
        };
        Progress {
            not_ready: not_ready.map(|(reason, message)| (reason.to_owned(), message.to_owned())),
            cached: field("/status/cacheStates/cached"),
            cached_percentage: field("/status/cacheStates/cachedPercentage"),
            total: field("/status/ufsTotal"),
            ..Progress::default()
        }
    }

    fn preferred_nodes(&self, cache: &Key, _: &CacheBackendSpec) -> Option<PreferredNodes> {
        let label = format!("s-{}-{}", cache.namespace, cache.name);
        (label.len() <= LABEL_MAX).then(|| PreferredNodes::WithLabel(format!("fluid.io/{label}")))
    }
}

fn runtime(cache: &CacheBackend) -> Option<(Kind, &FluidRuntime)> {
    let fluid = cache.spec.cache_engine.as_ref()?.fluid.as_ref()?;
    let all = [(ALLUXIO, &fluid.alluxio_runtime), (JUICEFS, &fluid.juicefs_runtime), (JINDO, &fluid.jindo_runtime)];
    all.into_iter().find_map(|(kind, runtime)| Some((kind, runtime.as_ref()?)))
}
