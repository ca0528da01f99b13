//! Who of several dispatchers leads: the one that made the leader's key in etcd, for as long as its lease lasts.
//!
//! The key says where the leader is, for those that wait to tell whoever asks them. Time is this process's own and
//! monotonic (see `term`). A leader that ends in order gives its lease back, and another leads at once; one that is killed
//! is followed when its lease is over; one that gave up by itself takes back what it left in etcd, when it can.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Clock, Result};
use serde::{Deserialize, Serialize};

use crate::leader::term::Term;
use crate::store::{Etcd, KeyValue, Keys, made_at, put, request};

/// How long a leader's lease lasts: the least that etcd gives with its usual timing.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How often it is renewed.
const RENEW_EVERY: Duration = Duration::from_millis(400);
/// How often one that waits looks who leads. A look is a read, and costs etcd no write.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// What the leader's key says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Leader {
    /// `host:port` that clients and workers reach it at.
    address: String,
    /// One run of one process.
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
    /// `lease` is how long it leads without being heard of, in whole seconds (see [`LEASE`]); `address` is where others
    /// reach it.
    pub(crate) fn new(etcd: Arc<Etcd>, keys: Keys, clock: Arc<dyn Clock>, lease: Duration, address: String) -> Self {
        let process = uuid::Uuid::new_v4().simple().to_string();
        Self { etcd, keys, clock, lease, leader: Leader { address, process } }
    }

    /// Waits until this process leads; meanwhile tells `see` where the one is that does, if that is known.
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
                        tracing::warn!(%error, "nobody can be elected");
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
            // An earlier term of this very process, which it gave up when etcd did not answer.
            Some(leader) if leader.process == self.leader.process => self.etcd.revoke_lease(found.lease).await?,
            leader => see(leader.as_ref().map(|l| l.address.as_str())),
        }
        Ok(None)
    }

    /// Tries to be elected: whoever makes the key first is.
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

    /// Gives a term back, so that another can lead at once.
    pub(crate) async fn resign(&self, term: &Term) {
        term.end();
        if let Err(error) = self.etcd.revoke_lease(term.lease()).await {
            tracing::debug!(%error, "the leader's lease ends by itself");
        }
    }
}

fn read(kv: &KeyValue) -> Option<Leader> {
    serde_json::from_slice(&kv.value).ok()
}
