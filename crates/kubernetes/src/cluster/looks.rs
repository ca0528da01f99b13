//! The loop of a controller: keys that are due are looked at, several beside each other, and counted.

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::Key;
use super::meter::METER;
use super::objects::Answer;
use super::queue::{Next, Queue};
use tokio::time::Instant;

/// Looks at what is due, for ever. `what` names the objects in logs and metrics.
pub(crate) async fn run(what: &'static str, queue: &Queue, at_once: usize, look: impl AsyncFn(&Key) -> Answer<Next>) {
    let look = &look;
    let mut looks = FuturesUnordered::new();
    loop {
        METER.waiting(what, queue.len());
        tokio::select! {
            key = queue.next(), if looks.len() < at_once => looks.push(async move {
                let next = one_look(what, &key, look).await;
                (key, next)
            }),
            Some((key, next)) = looks.next() => {
                queue.done(&key, next);
            }
        }
    }
}

async fn one_look(what: &'static str, key: &Key, look: &impl AsyncFn(&Key) -> Answer<Next>) -> Next {
    let start = Instant::now();
    let (next, outcome) = match look(key).await {
        Ok(Next::Failed) => (Next::Failed, "failed"),
        Ok(next) => (next, "done"),
        Err(refused) if refused.is_conflict() => {
            tracing::debug!(what, key = %key, error = %refused, "changed meanwhile; looked at again");
            (Next::Failed, "conflict")
        }
        Err(refused) => {
            tracing::warn!(what, key = %key, error = %refused, "not as it should be; tried again after a pause");
            (Next::Failed, "refused")
        }
    };
    METER.look(what, outcome, start.elapsed());
    next
}
