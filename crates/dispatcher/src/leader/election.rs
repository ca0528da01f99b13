//! Elects one of several dispatchers: the leader is the dispatcher that made the leader's key in etcd, as long as the
//! key's lease lasts.
//!
//! The key holds the leader's address, which the other dispatchers return to their callers. Time is counted by this
//! process's own monotonic clock (see `term`). A leader that stops in order revokes its lease, and another one leads at
//! once. A leader that is killed is followed when its lease is over. A leader that gave up by itself revokes its old
//! lease when it reaches etcd again.

#![expect(clippy::disallowed_methods, reason = "an election has a random name, and renews its lease in time")]

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Clock, Result};
use serde::{Deserialize, Serialize};

use crate::leader::term::Term;
use crate::store::{Etcd, KeyValue, Keys, made_at, put, request};

/// How long a leader's lease lasts: the minimum of etcd with its default timing.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How often the lease is renewed.
const RENEW_EVERY: Duration = Duration::from_millis(400);
/// How often a waiting dispatcher reads who leads. A read causes no write in etcd.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// The value of the leader's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Leader {
    /// `host:port` for clients and workers.
    address: String,
    /// Identifies one run of a process.
    process: String,
}

/// A process that wants to lead.
pub(crate) struct Candidate {
    etcd: Arc<Etcd>,
    keys: Keys,
    clock: Arc<dyn Clock>,
    lease: Duration,
    leader: Leader,
}

impl Candidate {
    /// `lease` is how long it leads without a renewal, in whole seconds (see [`LEASE`]); `address` is its address for
    /// others.
    pub(crate) fn new(etcd: Arc<Etcd>, keys: Keys, clock: Arc<dyn Clock>, lease: Duration, address: String) -> Self {
        let process = uuid::Uuid::new_v4().simple().to_string();
        Self { etcd, keys, clock, lease, leader: Leader { address, process } }
    }

    /// Waits until this process leads; meanwhile calls `see` with the leader's address, if that is known.
    ///
    /// # Cancel safety
    /// Safe: a lease that was just granted ends by itself.
    pub(crate) async fn campaign(&self, see: impl Fn(Option<&str>)) -> Arc<Term> {
        let mut silent = false;
        loop {
            match self.look(&see).await {
                Ok(Some(term)) => return Arc::new(term),
                Ok(None) => silent = false,
                Err(error) => {
                    see(None);
                    if !std::mem::replace(&mut silent, true) {
                        tracing::warn!(%error, "no leader can be elected");
                    }
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, see: impl Fn(Option<&str>)) -> Result<Option<Term>> {
        let Some(found) = self.etcd.get(&self.keys.leader()).await? else {
            see(None);
            return self.stand().await;
        };
        match read(&found) {
            // This process gave up an earlier term because etcd did not answer.
            Some(leader) if leader.process == self.leader.process => self.etcd.revoke_lease(found.lease).await?,
            leader => see(leader.as_ref().map(|l| l.address.as_str())),
        }
        Ok(None)
    }

    /// Tries to be elected: the first dispatcher that makes the key is.
    async fn stand(&self) -> Result<Option<Term>> {
        let asked = self.clock.now();
        let (lease, ttl) = self.etcd.grant_lease(self.lease).await?;
        let key = self.keys.leader();
        let value = serde_json::to_vec(&self.leader).unwrap_or_default();
        let elected = self.etcd.txn(request(vec![made_at(&key, 0)], vec![put(key, value, lease)])).await;
        match elected {
            Ok(done) if done.succeeded => {
                let revision = done.header.map_or(0, |h| h.revision);
                Ok(Some(Term::new(self.clock.clone(), revision, lease, asked, ttl)))
            }
            other => {
                // If etcd does not answer this either, the lease ends by itself.
                let _ = self.etcd.revoke_lease(lease).await;
                other.map(|_| None)
            }
        }
    }

    /// Renews a term until it is over.
    pub(crate) fn keep(&self, term: Arc<Term>) -> impl Future<Output = ()> + Send + 'static {
        let (etcd, clock) = (self.etcd.clone(), self.clock.clone());
        async move {
            while term.holds() {
                tokio::select! {
                    () = term.ended() => return,
                    () = tokio::time::sleep(RENEW_EVERY) => {}
                }
                let asked = clock.now();
                match etcd.keep_alive(term.lease()).await {
                    Ok(Some(ttl)) => term.renew(asked, ttl),
                    Ok(None) => {
                        tracing::warn!("etcd ended this dispatcher's lease");
                        break;
                    }
                    Err(error) => tracing::warn!(%error, "the leader's lease was not renewed"),
                }
            }
            term.end();
        }
    }

    /// Ends a term early, so that another dispatcher can lead at once.
    pub(crate) async fn resign(&self, term: &Term) {
        term.end();
        if let Err(error) = self.etcd.revoke_lease(term.lease()).await {
            tracing::debug!(%error, "the leader's lease was not revoked; it expires");
        }
    }
}

fn read(kv: &KeyValue) -> Option<Leader> {
    serde_json::from_slice(&kv.value).ok()
}
