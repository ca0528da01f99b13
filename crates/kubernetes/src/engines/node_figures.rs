//! Reads the progress of a cache's nodes from the metrics of their pods.
//!
//! An answer counts for [`FRESH`], or until the Deployment of the pods changes. Each change of a status is a watch event,
//! so without this a cache whose nodes read data would be reconciled all the time. Bounds: [`POD_MAX`] for a pod and
//! [`ANSWER_MAX`] for all pods of a cache, [`PODS_MAX`] pods.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::Value;

use super::cache_nodes::{CACHE_NODE, METRICS};
use super::prefetch_progress::{CacheNode, CacheNodes, cause, is_running, read};
use crate::cluster::objects::{ApiClient, ApiResult, PODS, selector, text};
use crate::cluster::{Key, pod_metrics};

/// Time for which an answer counts.
const FRESH: Duration = Duration::from_secs(4);
/// Timeout for one pod.
const POD_MAX: Duration = Duration::from_secs(1);
/// Timeout for the pods of a cache.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Pods that are asked at the same time.
const CONCURRENCY: usize = 32;
/// Pods of a cache that are asked.
const PODS_MAX: usize = 1000;

/// The last answers of a cache's nodes, and until when they count.
struct Answers {
    until: Instant,
    nodes: CacheNodes,
}

/// The last answers, by cache.
#[derive(Default)]
pub(crate) struct NodeFigures {
    last: Mutex<HashMap<Key, Answers>>,
}

impl NodeFigures {
    /// Returns the observed nodes of a cache.
    ///
    /// # Errors
    /// When the API does not answer.
    pub(crate) async fn of(&self, api: &ApiClient, cache: &Key) -> ApiResult<CacheNodes> {
        let last = self.with(|all| all.get(cache).map(|last| (last.until > Instant::now(), last.nodes.clone())));
        let last = match last {
            Some((true, nodes)) => return Ok(nodes),
            Some((false, nodes)) => nodes,
            None => CacheNodes::default(),
        };
        let labels = selector(CACHE_NODE, &cache.name);
        let pods = api.list(&PODS.collection_path(Some(&cache.namespace)), &labels).await?;
        let nodes = observe(&pods, &last).await;
        let answers = Answers { until: Instant::now() + FRESH, nodes: nodes.clone() };
        self.with(|all| all.insert(cache.clone(), answers));
        Ok(nodes)
    }

    /// Makes the next [`NodeFigures::of`] ask the pods.
    pub(crate) fn expire(&self, cache: &Key) {
        self.with(|all| {
            if let Some(last) = all.get_mut(cache) {
                last.until = Instant::now();
            }
        });
    }

    /// Forgets the answers of a cache.
    pub(crate) fn remove(&self, cache: &Key) {
        self.with(|all| all.remove(cache));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Key, Answers>) -> T) -> T {
        act(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Asks the running pods. A pod that does not answer keeps its last answer.
async fn observe(pods: &[Value], last: &CacheNodes) -> CacheNodes {
    let running: Vec<&Value> = pods.iter().filter(|pod| is_running(pod)).take(PODS_MAX).collect();
    let unasked = |pod: &&Value| CacheNode {
        pod: text(pod, "/metadata/uid").to_owned(),
        node: text(pod, "/spec/nodeName").to_owned(),
        mount: None,
        is_silent: true,
    };
    let mut nodes: Vec<CacheNode> = running.iter().map(unasked).collect();
    let mut answers = futures::stream::iter(running.into_iter().enumerate())
        .map(|(i, pod)| async move { (i, metrics(pod).await) })
        .buffer_unordered(CONCURRENCY);
    let all = async {
        while let Some((i, answer)) = answers.next().await {
            match answer {
                Ok(text) => {
                    nodes[i].mount = read(&text);
                    nodes[i].is_silent = nodes[i].mount.is_none();
                }
                Err(error) => tracing::debug!(node = nodes[i].node, error, "a cache node does not tell its metrics"),
            }
        }
    };
    // Pods that are not asked in time are silent.
    let _ = tokio::time::timeout(ANSWER_MAX, all).await;
    drop(answers);
    CacheNodes {
        running: nodes.into_iter().map(|node| node.after(last)).collect(),
        missing: pods.iter().filter(|pod| !is_running(pod)).find_map(cause),
    }
}

async fn metrics(pod: &Value) -> Result<String, String> {
    let address = text(pod, "/status/podIP").parse().map_err(|_| "the pod has no address".to_owned())?;
    let fetched = tokio::time::timeout(POD_MAX, pod_metrics::fetch(address, METRICS)).await;
    fetched.unwrap_or_else(|_| Err("the pod does not answer in time".to_owned()))
}
