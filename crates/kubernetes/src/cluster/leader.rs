//! Leader election: the replica that holds a Lease runs the controllers.
//!
//! The leader renews every fifth of the Lease's duration. It stops before the duration is over by its own monotonic
//! clock. A candidate acquires the Lease only after it has seen no change for the whole duration, and each write
//! carries the resourceVersion that was read. So two replicas never lead at once, even if the clocks of their machines
//! differ. A leader that loses the Lease exits, and the kubelet restarts it.

use std::time::Duration;

use forebay_core::{Error, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::objects::{ApiClient, ApiResult, LEASES, text};

/// Name of the Lease.
const NAME: &str = "forebay-operator";

/// This replica in the election.
pub(crate) struct Election {
    pub(crate) api: ApiClient,
    pub(crate) namespace: String,
    pub(crate) identity: String,
    /// How long the Lease is valid after a renewal.
    pub(crate) duration: Duration,
}

impl Election {
    /// Waits until this replica leads.
    pub(crate) async fn acquire(&self) {
        let (mut observed, mut since) = (Value::Null, Instant::now());
        loop {
            match self.api.find(&self.path()).await {
                Ok(None) => {
                    let lease = self.lease(&Value::Null);
                    if self.api.create(&LEASES.collection_path(Some(&self.namespace)), &lease).await.is_ok() {
                        return;
                    }
                }
                Ok(Some(lease)) => {
                    let holder = text(&lease, "/spec/holderIdentity");
                    if observed != lease["spec"] {
                        (observed, since) = (lease["spec"].clone(), Instant::now());
                    }
                    let is_free = holder.is_empty() || holder == self.identity || since.elapsed() > self.duration;
                    if is_free && self.write(&lease).await.is_ok() {
                        return;
                    }
                }
                Err(error) => tracing::warn!(error = %error, "the election's Lease cannot be read"),
            }
            tokio::time::sleep(self.duration / 4).await;
        }
    }

    /// Renews the Lease; returns when this replica must stop leading.
    pub(crate) async fn keep(&self) -> Result<()> {
        let lost = |why: String| Err(Error::unavailable(format!("the Lease {} is lost: {why}", self.path())));
        let mut renewed = Instant::now();
        loop {
            let until = renewed + self.duration * 5 / 6;
            tokio::time::sleep_until(until.min(Instant::now() + self.duration / 5)).await;
            let start = Instant::now();
            // The timeout leaves time for a second attempt before `until`.
            let why = match tokio::time::timeout_at(until.min(start + self.duration / 4), self.renew()).await {
                Ok(Ok(true)) => {
                    renewed = start;
                    continue;
                }
                Ok(Ok(false)) => return lost("another operator holds it".to_owned()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "Kubernetes does not answer".to_owned(),
            };
            if Instant::now() >= until {
                return lost(why);
            }
        }
    }

    /// Clears the holder, so that another replica leads at once.
    pub(crate) async fn release(&self) {
        if let Ok(Some(lease)) = self.api.find(&self.path()).await
            && text(&lease, "/spec/holderIdentity") == self.identity
        {
            let mut free = lease.clone();
            free["spec"]["holderIdentity"] = json!("");
            // If this fails, another replica acquires the Lease when its duration is over.
            self.api.replace(&self.path(), &free).await.ok();
        }
    }

    async fn renew(&self) -> ApiResult<bool> {
        let lease = self.api.get(&self.path()).await?;
        if text(&lease, "/spec/holderIdentity") != self.identity {
            return Ok(false);
        }
        self.write(&lease).await.map(|_| true)
    }

    async fn write(&self, read: &Value) -> ApiResult<Value> {
        self.api.replace(&self.path(), &self.lease(read)).await
    }

    /// The Lease with this replica as holder, with the resourceVersion that was read.
    fn lease(&self, read: &Value) -> Value {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let is_ours = text(read, "/spec/holderIdentity") == self.identity;
        let taken = if is_ours { text(read, "/spec/acquireTime").to_owned() } else { now.clone() };
        let changes = read.pointer("/spec/leaseTransitions").and_then(Value::as_u64).unwrap_or(0) + u64::from(!is_ours);
        json!({
            "apiVersion": LEASES.api_version(),
            "kind": LEASES.kind,
            "metadata": {
                "name": NAME, "namespace": self.namespace, "resourceVersion": text(read, "/metadata/resourceVersion"),
            },
            "spec": {
                "holderIdentity": self.identity, "leaseDurationSeconds": self.duration.as_secs().max(1),
                "acquireTime": taken, "renewTime": now, "leaseTransitions": changes,
            },
        })
    }

    fn path(&self) -> String {
        LEASES.object_path(Some(&self.namespace), NAME)
    }
}
