//! The workers that request cached rows from each other.
//!
//! The dispatcher sends a worker the addresses of at most [`PEERS_MAX`] peers: the next ones in the ring of worker ids,
//! so that each worker serves about as many. It sends them after the worker's hello, so that the worker has its peers
//! before its first split, and in the answer to a heartbeat when the peers have changed.
//!
//! Invariants: a worker gets no other tenant's workers as peers, and none that caches rows in the same folder. Only
//! this dispatcher issues the key that peers show.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use forebay_core::WorkerId;
use forebay_proto::{JobKey, Peers};

use crate::state::leases::views::WorkerView;

/// The most peers of one worker. With more workers, each sees a part of the cached rows.
const PEERS_MAX: usize = 64;
/// The context of the derived keys.
const PURPOSE: &str = "forebay 2026-11-22 what workers show each other";

/// Workers that cache rows, and the peers that each was sent.
#[derive(Debug, Default)]
pub(in crate::state) struct PeerRing {
    /// The secret from which workers' keys for each other are derived; `None` if they need none.
    secret: Option<[u8; 16]>,
    /// The folders where workers cache rows.
    places: BTreeMap<WorkerId, Arc<str>>,
    /// The peers that each worker's session was sent.
    sent: BTreeMap<WorkerId, Vec<Arc<str>>>,
}

impl PeerRing {
    /// Makes workers require a key from each other that is derived from this secret, a different one for each tenant.
    pub(in crate::state) fn set_secret(&mut self, secret: [u8; 16]) {
        self.secret = Some(secret);
    }

    /// Notes where the worker of a new session caches rows; an empty place is none.
    pub(in crate::state) fn begin(&mut self, worker: &WorkerView<'_>, place: Arc<str>) {
        self.remove(worker.id);
        // No other worker can reach a local one.
        if !place.is_empty() && !worker.is_local() {
            self.places.insert(worker.id, place);
        }
    }

    pub(in crate::state) fn remove(&mut self, worker: WorkerId) {
        self.places.remove(&worker);
        self.sent.remove(&worker);
    }

    /// Returns a worker's peers if they have changed since it was sent them. `find` finds the worker with an id.
    pub(in crate::state) fn update<'a>(
        &mut self,
        own: &WorkerView<'a>,
        find: impl Fn(WorkerId) -> Option<WorkerView<'a>>,
    ) -> Option<Peers> {
        if own.is_local() {
            return None;
        }
        let place = self.places.get(&own.id);
        let ring = self.places.range((Excluded(own.id), Unbounded)).chain(self.places.range(..own.id));
        let others = ring.filter(|(_, other)| Some(*other) != place).filter_map(|(id, _)| find(*id));
        let peers = others.filter(|other| other.is_live && other.serves == own.serves).take(PEERS_MAX);
        let peers: Vec<Arc<str>> = peers.map(|peer| peer.address.clone()).collect();
        if self.sent.get(&own.id).map_or(peers.is_empty() && place.is_none(), |told| *told == peers) {
            return None;
        }
        let key = self.secret.map_or_else(Vec::new, |secret| key(secret, own.serves.map(|serves| &**serves)).to_vec());
        let news = Peers { addresses: peers.iter().map(|address| address.to_string()).collect(), key };
        self.sent.insert(own.id, peers);
        Some(news)
    }
}

/// Returns the key of a tenant's workers, or of the workers for all tenants.
fn key(secret: [u8; 16], serves: Option<&str>) -> JobKey {
    let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
    hasher.update(&secret).update(&[u8::from(serves.is_some())]).update(serves.unwrap_or_default().as_bytes());
    JobKey::from_bytes(&hasher.finalize().as_bytes()[..16])
}
