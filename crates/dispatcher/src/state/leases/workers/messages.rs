//! Messages of workers: hello, want, heartbeat, leave, and the end of a session.
//!
//! The dispatcher revokes each lease of a returning worker whose token is no longer current.

use std::collections::BTreeSet;

use forebay_core::{Error, ErrorKind, Ticks, WorkerId};
use forebay_proto::{Forget, Lease, Welcome, WorkerHeartbeat, WorkerHeartbeatReply, worker_event};

use crate::records::{Grant, Position, SplitKey, Update};
use crate::state::effect::Effect;
use crate::state::input::{Arrival, SessionId};
use crate::state::leases::events::revoke_event;
use crate::state::leases::grants::trouble::Death;
use crate::state::leases::machine::Leases;
use crate::state::leases::notice::Notice;
use crate::state::leases::workers::worker::Worker;

/// The longest reason that is kept for a cache folder that a worker does not write to.
const DISK_OFF_CHARS_MAX: usize = 300;

impl Leases {
    /// A worker begins a session, with the leases that it still holds.
    pub(in crate::state) fn hello(&mut self, now: Ticks, arrival: &Arrival, out: &mut Vec<Effect>) {
        let &Arrival { session, worker: id, ref address, threads, ref held, ref serves, only, local_key, .. } = arrival;
        if let Err(error) = self.check_local_worker(serves.as_deref(), only) {
            return out.push(Effect::End(session, error));
        }
        let worker = self.workers.entry(id).or_insert_with(|| Worker::absent(address.clone(), now, now));
        if worker.session.is_some() && (&worker.serves, worker.only) != (serves, only) {
            let error = Error::new(ErrorKind::PermissionDenied, "another worker has this id");
            return out.push(Effect::End(session, error));
        }
        (worker.serves, worker.only, worker.local_key) = (serves.clone(), only, local_key);
        if let Some(old) = worker.session {
            self.worker_sessions.remove(&old);
            let error = Error::new(ErrorKind::Conflict, "this worker opened another session");
            out.push(Effect::End(old, error));
        }
        let moved = worker.address != *address;
        worker.begin(session, address.clone(), threads, now);
        worker.bits = arrival.bits.clone();
        worker.differs.clear();
        self.jobs.values().for_each(|job| worker.compare(job));
        self.worker_sessions.insert(session, id);
        out.push(Effect::Worker(
            session,
            worker_event::Event::Welcome(Welcome {
                heartbeat_ms: self.timing.heartbeat.as_millis() as u64,
                lease_ms: self.timing.lease.as_millis() as u64,
            }),
        ));
        self.acquit(id);
        self.clock.expiry = self.clock.expiry.min(now + self.timing.lease);
        let mut kept = BTreeSet::new();
        let mut unknown = BTreeSet::new();
        for lease in held {
            match self.workers.get(&id).and_then(|w| w.leases.get(&lease.token)) {
                Some(key) if *key == key_of(lease) && self.may_hold(id, key.0) => drop(kept.insert(lease.token)),
                _ => out.push(Effect::Worker(session, revoke_event(lease.token))),
            }
            if self.jobs.get(&lease.job).is_none_or(|j| j.record.cancelled) && unknown.insert(lease.job) {
                out.push(Effect::Worker(session, worker_event::Event::Forget(Forget { job: lease.job })));
            }
        }
        self.keep_only(id, &kept, moved, out);
    }

    /// After a hello: leases that the worker does not hold, because they never reached it, go to other workers.
    fn keep_only(&mut self, id: WorkerId, kept: &BTreeSet<u64>, moved: bool, out: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let address = worker.address.clone();
        let (same, lost): (Vec<_>, Vec<_>) =
            worker.leases.iter().map(|(t, k)| (*t, *k)).partition(|(t, _)| kept.contains(t));
        worker.leases.retain(|token, _| kept.contains(token));
        for (token, key) in lost {
            self.drop_lease(key, token, out);
        }
        for (token, key) in same.into_iter().filter(|_| moved) {
            self.send_assignments(key, out);
            // The ledger records only the first lease of a split.
            if self.consumer(key.0).and_then(|c| c.leases().get(&key.1)).is_some_and(|first| first.token == token) {
                let grant = Grant { token, worker: id, address: address.clone() };
                out.push(Effect::Remember(Update::Grant(key, grant)));
            }
        }
    }

    /// Returns the worker of a session that is still open, and notes that it is alive.
    fn heard_worker(&mut self, now: Ticks, session: SessionId) -> Option<&mut Worker> {
        let worker = self.workers.get_mut(self.worker_sessions.get(&session)?)?;
        worker.heard = now;
        Some(worker)
    }

    pub(in crate::state) fn want(&mut self, now: Ticks, session: SessionId, splits: u32) {
        if let Some(worker) = self.heard_worker(now, session) {
            worker.want(splits);
            self.has_newcomer |= worker.splits_done == 0 && worker.leases.is_empty();
        }
    }

    /// Returns the worker of a session whose heartbeat must be answered now. A worker reconnects after a lease of
    /// silence; an answer to each heartbeat would double their cost.
    pub(in crate::state) fn answer_is_due(&self, now: Ticks, session: SessionId) -> Option<WorkerId> {
        let id = self.worker_sessions.get(&session)?;
        let worker = self.workers.get(id)?;
        (now - worker.answered >= self.timing.lease / 3).then_some(*id)
    }

    /// Accepts a heartbeat, and answers it.
    pub(in crate::state) fn worker_heartbeat(
        &mut self,
        now: Ticks,
        session: SessionId,
        said: &WorkerHeartbeat,
        answer: Option<WorkerHeartbeatReply>,
        out: &mut Vec<Effect>,
    ) {
        let heartbeat = self.timing.heartbeat;
        let Some(worker) = self.heard_worker(now, session) else {
            self.counts.worker_heartbeats_refused += 1;
            return;
        };
        (worker.splits_done, worker.rows_done, worker.rows_shared) =
            (said.splits_done, said.rows_done, said.rows_shared);
        if worker.disk_off != said.disk_off {
            worker.disk_off = said.disk_off.chars().take(DISK_OFF_CHARS_MAX).collect();
        }
        let finished: BTreeSet<_> =
            said.finished.iter().copied().filter(|token| worker.leases.contains_key(token)).collect();
        let (has_changed, was_slow) = (worker.finished != finished, worker.slow);
        let new: Vec<_> = finished.difference(&worker.finished).copied().collect();
        worker.finished = finished;
        worker.answered = if answer.is_some() { now } else { worker.answered };
        let outlived = worker.has_outlived(now, heartbeat);
        if let Some(id) = self.worker_sessions.get(&session).copied() {
            out.extend(answer.map(|answer| Effect::Worker(session, worker_event::Event::Heartbeat(answer))));
            if outlived {
                self.acquit(id);
            }
            self.note_begun(now, id);
            new.into_iter().for_each(|token| self.has_finished(now, id, token, out));
        }
        // A suspect split waits for a worker without other work, and a slow worker gets one split at a time.
        self.changed |= has_changed && (was_slow || self.has_suspects());
    }

    /// Notes the splits that a worker computes now.
    pub(in crate::state::leases) fn note_begun(&mut self, now: Ticks, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.note_begun(now, |key| self.jobs.get(&key.0.0).map_or(0, |job| job.record.priority));
    }

    /// Notes the splits that a worker computes, after it got a lease.
    pub(in crate::state::leases) fn note_granted(&mut self, now: Ticks, id: WorkerId, token: u64) {
        let priority = |key: &SplitKey| self.jobs.get(&key.0.0).map_or(0, |job| job.record.priority);
        if !self.workers.get(&id).is_some_and(|worker| worker.must_wait(token, priority)) {
            self.note_begun(now, id);
        }
    }

    pub(in crate::state) fn leaving(&mut self, now: Ticks, session: SessionId) {
        if let Some(worker) = self.heard_worker(now, session) {
            worker.leaving = true;
        }
    }

    pub(in crate::state) fn worker_gone(&mut self, now: Ticks, session: SessionId, out: &mut Vec<Effect>) {
        let grace = self.timing.reconnect_grace;
        let Some(id) = self.worker_sessions.remove(&session) else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        (worker.session, worker.until) = (None, now + grace);
        self.clock.expiry = self.clock.expiry.min(now + grace);
        if grace.is_zero() {
            self.lose_worker(now, id, out);
        }
    }

    /// A worker is lost: its leases go to other workers, under new tokens.
    pub(in crate::state::leases) fn lose_worker(&mut self, now: Ticks, id: WorkerId, out: &mut Vec<Effect>) {
        let Some(worker) = self.workers.remove(&id) else { return };
        self.counts.workers_lost += u64::from(!worker.leaving);
        self.counts.leases_lapsed += if worker.leaving { 0 } else { worker.leases.len() as u64 };
        if let Some(session) = worker.session {
            self.worker_sessions.remove(&session);
            let silent = (now - worker.heard).as_secs_f64();
            out.push(Effect::End(session, Error::unavailable(format!("this worker was silent for {silent:.1} s"))));
        }
        for job in self.jobs.values_mut() {
            let computed = worker.jobs.contains(&job.record.id);
            job.consumers.iter_mut().for_each(|consumer| consumer.lose_worker(now, id, computed));
        }
        self.notices.push(Notice::WorkerGone(id, (!worker.leaving).then(|| worker.lost(id, now))));
        let suspects = if worker.leaving { BTreeSet::new() } else { worker.suspects(now, self.timing.lease) };
        for (token, key) in worker.leases {
            self.drop_lease(key, token, out);
        }
        for key in suspects {
            // A consumer without a session gets no grants, and could not be sent the error.
            if self.consumer(key.0).is_some_and(|c| c.attached.is_some() && key.1 >= c.frontier()) {
                self.accuse(key, Death { worker: id, address: worker.address.clone(), at: now });
            }
        }
    }
}

fn key_of(lease: &Lease) -> SplitKey {
    ((lease.job, lease.consumer), Position::new(lease.epoch, lease.ordinal))
}
