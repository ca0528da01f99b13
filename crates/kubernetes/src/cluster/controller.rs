//! The loop of a controller: it takes keys from the work queue, reconciles several at once, and counts the outcomes.

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::Key;
use super::metrics::METRICS;
use super::objects::ApiResult;
use super::work_queue::{Requeue, WorkQueue};
use tokio::time::Instant;

/// Reconciles the keys of a queue and never returns. `what` is the label of the controller in logs and metrics.
pub(crate) async fn run(
    what: &'static str,
    queue: &WorkQueue,
    concurrency: usize,
    reconcile: impl AsyncFn(&Key) -> ApiResult<Requeue>,
) {
    let reconcile = &reconcile;
    let mut running = FuturesUnordered::new();
    loop {
        METRICS.queue_length(what, queue.len());
        tokio::select! {
            key = queue.next(), if running.len() < concurrency => running.push(async move {
                let requeue = reconcile_one(what, &key, reconcile).await;
                (key, requeue)
            }),
            Some((key, requeue)) = running.next() => {
                queue.done(&key, requeue);
            }
        }
    }
}

async fn reconcile_one(what: &'static str, key: &Key, reconcile: &impl AsyncFn(&Key) -> ApiResult<Requeue>) -> Requeue {
    let start = Instant::now();
    let (requeue, outcome) = match reconcile(key).await {
        Ok(Requeue::WithBackoff) => (Requeue::WithBackoff, "failed"),
        Ok(requeue) => (requeue, "done"),
        Err(error) if error.is_conflict() => {
            tracing::debug!(what, key = %key, error = %error, "the object changed meanwhile; reconciled again");
            (Requeue::WithBackoff, "conflict")
        }
        Err(error) => {
            tracing::warn!(what, key = %key, error = %error, "not reconciled; retried after a pause");
            (Requeue::WithBackoff, "refused")
        }
    };
    METRICS.reconciled(what, outcome, start.elapsed());
    requeue
}
