//! Forebay's own engine: a volume of the CSI driver `csi.forebay.dev`, and the claim that pods mount. The driver mounts
//! the sources on each node with such a pod, and caches on that node the data that the pods read. It reads the
//! attributes of the volume:
//!
//! | attribute | value |
//! |---|---|
//! | `sources` | JSON: a list of `{"location": URI, "subDirName": folder}`; the folder is absent for a single source at the root |
//! | `prefetch` | `true`: the driver reads all remote files into the tier; absent otherwise |
//! | `tiers` | JSON: a list of `{"path": folder on the node, "quota": bytes, "medium": MEM, SSD or HDD}`, the fastest first |
//!
//! With `replicas`, cache nodes read all remote files before pods of jobs run: see [`super::cache_nodes`].
//!
//! A volume is cluster-scoped, so a namespaced cache cannot own it. The volume has the cache's uid as a label, and the
//! operator deletes it before it removes the cache's finalizer.

use serde_json::{Value, json};

use super::cache_nodes::{self, CACHE_NODE};
use super::prefetch_progress::{self, CacheNodes};
use super::{CACHE_UID, Child, Engine, EngineSettings, PreferredNodes, Prerequisite, Progress};
use crate::api::cache_backend::{Medium, Tier};
use crate::api::validate::bytes;
use crate::api::{CacheBackend, CacheBackendSpec};
use crate::cluster::Key;
use crate::cluster::objects::{CLAIMS, Kind, VOLUMES, kind, text};

/// Name of the CSI driver.
pub(crate) const DRIVER: &str = "csi.forebay.dev";
/// Storage class of volume and claim. No such class exists, so no provisioner creates volumes for the claim.
const CLASS: &str = "forebay-cache";
/// Capacity of a volume without tiers. Nothing enforces it.
const SIZE: &str = "1Ti";
/// Schemes of the locations that the driver reads.
const SCHEMES: [&str; 7] = ["local", "file", "s3", "gs", "az", "http", "https"];
const DRIVERS: Kind = kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers");

/// See the module's documentation.
pub(crate) struct Forebay;

impl Engine for Forebay {
    fn name(&self) -> &'static str {
        "forebay"
    }

    fn validate(&self, cache: &CacheBackend) -> Result<(), String> {
        let Key { namespace, name } = key(cache);
        // The name of a volume is a DNS name of at most 253 characters.
        let length = volume(&namespace, &name).len();
        if length > 253 {
            return Err(format!("{namespace}/{name} makes a name of {length} characters: at most 253"));
        }
        if cache.spec.min_cached() > 0.0 && replicas(&cache.spec) == 0 {
            let fault = "spec.cacheEngine.forebay.replicas is 0, and options.minCachedPercent above 0: no node would \
                         cache the data before pods run";
            return Err(fault.to_owned());
        }
        let sources = cache.spec.sources();
        for (i, source) in sources.iter().enumerate() {
            let at = format!("spec.dataset.dataSources[{i}]");
            let scheme = source.location.split("://").next().unwrap_or_default();
            if !SCHEMES.contains(&scheme) {
                let known = SCHEMES.join(", ");
                return Err(format!("{at}.location is {:?}: the engine forebay reads {known}", source.location));
            }
            if sources.len() > 1 && source.sub_dir_name.as_deref().unwrap_or_default().is_empty() {
                return Err(format!("{at} has no subDirName: with the engine forebay each of several sources has one"));
            }
        }
        Ok(())
    }

    fn prerequisite(&self) -> Option<Prerequisite> {
        let missing = "the CSI driver csi.forebay.dev is not installed: there is no CSIDriver object of this name";
        Some(Prerequisite { path: DRIVERS.object_path(None, DRIVER), missing })
    }

    fn children(&self, cache: &CacheBackend, settings: &EngineSettings) -> Vec<Child> {
        let Key { namespace, name } = key(cache);
        let replicas = replicas(&cache.spec);
        let engine = cache.spec.cache_engine.as_ref().and_then(|engine| engine.forebay.as_ref());
        let tiers = engine.map_or(&[][..], |engine| &engine.tiered_storage);
        let total: f64 = tiers.iter().filter_map(|tier| bytes(&tier.quota)).sum();
        let size = if total >= 1.0 { format!("{total:.0}") } else { SIZE.to_owned() };
        let sources = json!(cache.spec.sources()).to_string();
        let volume_name = volume(&namespace, &name);
        let mut attributes = json!({"sources": sources, "tiers": tiers_attribute(tiers)});
        if replicas > 0 || engine.is_some_and(|engine| engine.prefetch) {
            attributes["prefetch"] = json!("true");
        }
        let source = json!({
            "driver": DRIVER, "volumeHandle": volume_name, "readOnly": true, "volumeAttributes": attributes,
        });
        let volume = json!({
            "accessModes": ["ReadOnlyMany"], "capacity": {"storage": size}, "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            "csi": source,
        });
        let claim = json!({
            "accessModes": ["ReadOnlyMany"], "storageClassName": CLASS, "volumeName": volume_name,
            "resources": {"requests": {"storage": size}},
        });
        let child = |kind, namespace, name, spec| Child {
            kind,
            namespace,
            name,
            spec,
            can_change: false,
            kept: None,
            exact: &[],
            is_wanted: true,
        };
        let mut children =
            vec![child(VOLUMES, None, volume_name.clone(), volume), child(CLAIMS, Some(namespace), name, claim)];
        if let Some(engine) = engine {
            children.extend(cache_nodes::children(&key(cache), engine, replicas, settings));
        }
        children
    }

    fn cache_nodes(&self, cache: &CacheBackend) -> u32 {
        replicas(&cache.spec)
    }

    fn not_installed(&self) -> &'static str {
        "this cluster lacks a kind that every cluster has"
    }

    fn is_claim(&self, cache_uid: &str, claim: &Value) -> bool {
        text(claim, &format!("/metadata/labels/{}", CACHE_UID.replace('/', "~1"))) == cache_uid
    }

    fn progress(&self, cache: &CacheBackend, children: &[Value], nodes: &CacheNodes) -> Progress {
        match replicas(&cache.spec) {
            // Nodes fill their tiers as pods read files.
            0 => Progress::default(),
            replicas => prefetch_progress::progress(&key(cache).name, replicas, children, nodes),
        }
    }

    fn preferred_nodes(&self, cache: &Key, spec: &CacheBackendSpec) -> Option<PreferredNodes> {
        (replicas(spec) > 0).then(|| PreferredNodes::WithPods(CACHE_NODE, cache.name.clone()))
    }
}

/// Number of cache nodes: `replicas`, or one where pods wait for cached data.
fn replicas(spec: &CacheBackendSpec) -> u32 {
    let engine = spec.cache_engine.as_ref().and_then(|engine| engine.forebay.as_ref());
    let waits = spec.min_cached() > 0.0;
    engine.map_or(0, |engine| engine.replicas.map_or(u32::from(waits), |n| u32::try_from(n).unwrap_or(0)))
}

fn key(cache: &CacheBackend) -> Key {
    Key::new(cache.metadata.namespace.clone().unwrap_or_default(), cache.metadata.name.clone().unwrap_or_default())
}

/// Name of the volume. Namespace and name have no dots, so two caches never have the same volume name.
fn volume(namespace: &str, name: &str) -> String {
    format!("forebay.{namespace}.{name}")
}

fn tiers_attribute(tiers: &[Tier]) -> String {
    let mut tiers: Vec<&Tier> = tiers.iter().collect();
    tiers.sort_by_key(|tier| match tier.medium_type {
        Medium::Mem => 0,
        Medium::Ssd => 1,
        Medium::Hdd => 2,
    });
    let attribute = |tier: &&Tier| {
        let quota = format!("{:.0}", bytes(&tier.quota).unwrap_or_default());
        json!({"path": tier.cache_path, "quota": quota.parse::<u64>().unwrap_or_default(), "medium": tier.medium_type})
    };
    json!(tiers.iter().map(attribute).collect::<Vec<_>>()).to_string()
}
