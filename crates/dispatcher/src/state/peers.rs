//! Which workers ask each other for cached rows.
//!
//! A worker is told of at most [`PEERS_MAX`] others: the next ones in the ring of worker ids, so that each is asked by
//! about as many. It is told after its hello, so that it knows its peers before its first split, and in the answer to a
//! heartbeat when its peers have changed.
//!
//! Invariants: a worker is told of no other tenant's workers, and of none that caches rows in the same folder. Only
//! this dispatcher gives out the key that peers show.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use forebay_core::WorkerId;
use forebay_proto::{JobKey, Peers, WorkerHeartbeatReply, worker_event};

use super::leases::worker::Worker;
use super::{Effect, SessionId, State};

/// The most peers of one worker. With more workers, each sees a part of what is cached.
const PEERS_MAX: usize = 64;
/// The context of the derived keys.
const PURPOSE: &str = "forebay 2026-11-22 what workers show each other";

impl State {
    /// Lets workers ask each other for a key that is derived from this secret, a different one for each tenant.
    pub(crate) fn set_secret(&mut self, secret: [u8; 16]) {
        self.secret = Some(secret);
    }

    /// Notes where the worker of a new session caches rows (an empty place is none), and tells it of its peers.
    pub(super) fn note_place(&mut self, session: SessionId, place: Arc<str>, out: &mut Vec<Effect>) {
        let Some(id) = self.worker_sessions.get(&session).copied() else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        // No other worker can reach a local one.
        let place = if worker.is_local() { Arc::from("") } else { place };
        if place.is_empty() {
            self.caching_workers.remove(&id)
        } else {
            self.caching_workers.insert(id)
        };
        (worker.place, worker.peers_sent) = (place, None);
        if let Some(peers) = self.peers_update(id) {
            let reply = WorkerHeartbeatReply { peers: Some(peers) };
            out.push(Effect::Worker(session, worker_event::Event::Heartbeat(reply)));
        }
    }

    /// Returns a worker's peers if it was not told of them yet.
    pub(super) fn peers_update(&mut self, id: WorkerId) -> Option<Peers> {
        let own = self.workers.get(&id).filter(|own| !own.is_local())?;
        let ring = self.caching_workers.range((Excluded(id), Unbounded)).chain(self.caching_workers.range(..id));
        let is_peer = |other: &&Worker| other.is_live() && other.serves == own.serves && other.place != own.place;
        let peers = ring.filter_map(|other| self.workers.get(other)).filter(is_peer).take(PEERS_MAX);
        let peers: Vec<Arc<str>> = peers.map(|peer| peer.address.clone()).collect();
        if own.peers_sent.as_ref().map_or(peers.is_empty() && own.place.is_empty(), |told| *told == peers) {
            return None;
        }
        let key = self.secret.map_or_else(Vec::new, |secret| key(secret, own.serves.as_deref()).to_vec());
        let news = Peers { addresses: peers.iter().map(|address| address.to_string()).collect(), key };
        self.workers.get_mut(&id)?.peers_sent = Some(peers);
        Some(news)
    }
}

/// Returns the key of a tenant's workers, or of the workers for all tenants.
fn key(secret: [u8; 16], serves: Option<&str>) -> JobKey {
    let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
    hasher.update(&secret).update(&[u8::from(serves.is_some())]).update(serves.unwrap_or_default().as_bytes());
    JobKey::from_bytes(&hasher.finalize().as_bytes()[..16])
}
