//! Which of several operators acts: the one that holds a Lease.
//!
//! A holder renews every fifth of the lease's time. By its own monotonic clock it stops before the time is over, so two
//! never act at once, whatever the clocks of their machines say: a candidate takes the Lease only when it has not seen
//! it change for the whole time, and each write names the version that was read. A holder that loses the Lease ends;
//! whatever started it starts it again.

use std::time::Duration;

use forebay_core::{Error, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::objects::{ApiClient, ApiResult, LEASES, text};

/// Name of the Lease.
const NAME: &str = "forebay-operator";

/// A candidate, or the holder.
pub(crate) struct Election {
    pub(crate) api: ApiClient,
    pub(crate) namespace: String,
    pub(crate) identity: String,
    /// How long a holder is one after its last renewal.
    pub(crate) duration: Duration,
}

impl Election {
    /// Waits until this process is the one that acts.
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

    /// Holds on; returns when this process must not act any more.
    pub(crate) async fn keep(&self) -> Result<()> {
        let lost = |why: String| Err(Error::unavailable(format!("the Lease {} is lost: {why}", self.path())));
        let mut renewed = Instant::now();
        loop {
            let until = renewed + self.duration * 5 / 6;
            tokio::time::sleep_until(until.min(Instant::now() + self.duration / 5)).await;
            let start = Instant::now();
            // A try that hangs leaves time for another one.
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

    /// Lets another operator act at once.
    pub(crate) async fn release(&self) {
        if let Ok(Some(lease)) = self.api.find(&self.path()).await
            && text(&lease, "/spec/holderIdentity") == self.identity
        {
            let mut free = lease.clone();
            free["spec"]["holderIdentity"] = json!("");
            // Another operator gets it a little later if this fails.
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

    /// The Lease with this process as holder, in the version that was read.
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
