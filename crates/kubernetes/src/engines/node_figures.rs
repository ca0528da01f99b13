//! Reads the progress of a cache's nodes from the metrics of their pods.
//!
//! An answer counts for [`FRESH`], or until the Deployment of the pods changes. Each change of a status is a watch event,
//! so without this a cache whose nodes read data would be reconciled all the time. Bounds: [`ANSWER_MAX`] for all pods
//! of a cache, [`PODS_MAX`] pods.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::Value;

use super::cache_nodes::{CACHE_NODE, METRICS};
use super::prefetch_progress::{CacheNode, CacheNodes, cause, is_running, read};
use crate::cluster::objects::{ApiClient, ApiResult, PODS, text};
use crate::cluster::{Key, pod_metrics};

/// Time for which an answer counts.
const FRESH: Duration = Duration::from_secs(4);
/// Timeout for the pods of a cache.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Pods that are asked at the same time.
const CONCURRENCY: usize = 32;
/// Pods of a cache that are asked.
const PODS_MAX: usize = 1000;

/// The last answers, by cache.
#[derive(Debug, Default)]
pub(crate) struct NodeFigures {
    last: Mutex<HashMap<Key, (Instant, CacheNodes)>>,
}

impl NodeFigures {
    /// Returns the observed nodes of a cache.
    ///
    /// # Errors
    /// When the API does not answer.
    pub(crate) async fn of(&self, api: &ApiClient, cache: &Key) -> ApiResult<CacheNodes> {
        let last =
            self.with(|all| all.get(cache).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, nodes)| nodes.clone()));
        if let Some(nodes) = last {
            return Ok(nodes);
        }
        let labels = format!("{}%3D{}", CACHE_NODE.replace('/', "%2F"), cache.name);
        let pods = api.list(&PODS.collection_path(Some(&cache.namespace)), &labels).await?;
        let nodes = observe(&pods).await;
        self.with(|all| all.insert(cache.clone(), (Instant::now(), nodes.clone())));
        Ok(nodes)
    }

    /// Forgets the answers of a cache.
    pub(crate) fn remove(&self, cache: &Key) {
        self.with(|all| all.remove(cache));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Key, (Instant, CacheNodes)>) -> T) -> T {
        act(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn observe(pods: &[Value]) -> CacheNodes {
    let running: Vec<&Value> = pods.iter().filter(|pod| is_running(pod)).take(PODS_MAX).collect();
    let mut nodes: Vec<CacheNode> =
        running.iter().map(|pod| CacheNode { node: text(pod, "/spec/nodeName").to_owned(), prefetch: None }).collect();
    let mut answers = futures::stream::iter(running.into_iter().enumerate())
        .map(|(i, pod)| async move { (i, metrics(pod).await) })
        .buffer_unordered(CONCURRENCY);
    let all = async {
        while let Some((i, answer)) = answers.next().await {
            match answer {
                Ok(text) => nodes[i].prefetch = read(&text),
                Err(error) => tracing::debug!(node = nodes[i].node, error, "a cache node does not tell its metrics"),
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_MAX, all).await;
    drop(answers);
    CacheNodes { running: nodes, missing: pods.iter().filter(|pod| !is_running(pod)).find_map(cause) }
}

async fn metrics(pod: &Value) -> Result<String, String> {
    let address = text(pod, "/status/podIP").parse().map_err(|_| "the pod has no address".to_owned())?;
    pod_metrics::fetch(address, METRICS).await
}
