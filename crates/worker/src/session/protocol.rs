//! The worker's side of its session with the dispatcher: the messages that it sends, and its reaction to each event. No
//! I/O, no clock.
//!
//! `transport` drives it over gRPC, the simulation over a network that fails. Invariants: a lease is kept until the
//! dispatcher ends it, even if the connection breaks; the worker requests no more splits than it has room for; a
//! dispatcher that is silent for the length of a lease counts as a broken connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, WorkerId};
use forebay_plan::BitVersions;
use forebay_proto::worker_event::Event;
use forebay_proto::worker_message::Message;
use forebay_proto::{
    Build, Caching, Hello, JobKey, Leaving, OneReader, Threads as ThreadCount, UNNUMBERED_VERSION, Want,
    WorkerHeartbeat, WorkerSecret,
};

use crate::compute::engine::{Engine, PoolEngine};
use crate::options::WorkerType;
use crate::peers::membership::Membership;
use crate::splits::lease_table::LeaseTable;

/// The pause between attempts doubles from the first of these to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(200);
/// How often the worker checks whether the report on its cache has changed.
const CACHING_EVERY: Duration = Duration::from_secs(2);

/// The state of one worker's sessions.
pub(crate) struct WorkerProtocol<E: Engine = PoolEngine> {
    secret: WorkerSecret,
    address: String,
    /// The only consumer that it computes for.
    only_consumer: Option<OneReader>,
    /// The key that proves that this consumer started it.
    local_key: JobKey,
    /// The number of threads that was sent in this session.
    threads_told: usize,
    pub(crate) lease_table: Arc<LeaseTable<E>>,
    pause: Duration,
    /// Whether the worker is leaving, and whether that was sent in this session.
    leaving: bool,
    leave_told: bool,
    /// Splits that were requested in this session and have not been leased yet.
    requested: usize,
    last_heard: Ticks,
    silence_max: Duration,
    /// The cache report that was sent for each job, and when to check again.
    caching_told: HashMap<u64, String>,
    caching_due: Ticks,
    /// The address of its cached rows, for other workers: see [`WorkerProtocol::with_cache`].
    cache_address: String,
    membership: Arc<Membership>,
    worker_type: WorkerType,
}

impl<E: Engine> WorkerProtocol<E> {
    pub(crate) fn new(
        secret: WorkerSecret,
        address: String,
        only_consumer: Option<OneReader>,
        lease_table: Arc<LeaseTable<E>>,
    ) -> Self {
        Self {
            secret,
            address,
            only_consumer,
            local_key: JobKey::default(),
            threads_told: 0,
            lease_table,
            pause: PAUSE_FIRST,
            leaving: false,
            leave_told: false,
            requested: 0,
            last_heard: Ticks::default(),
            silence_max: Duration::ZERO,
            caching_told: HashMap::new(),
            caching_due: Ticks::default(),
            cache_address: String::new(),
            membership: Arc::default(),
            worker_type: WorkerType::default(),
        }
    }

    /// Sets the address at which this worker serves cached rows, and the membership to update.
    pub(crate) fn with_cache(self, cache_address: String, membership: Arc<Membership>) -> Self {
        Self { cache_address, membership, ..self }
    }

    /// Sets the key that proves that its consumer started it.
    pub(crate) fn with_local_key(self, local_key: JobKey) -> Self {
        Self { local_key, ..self }
    }

    /// Sets the worker type.
    pub(crate) fn with_type(self, worker_type: WorkerType) -> Self {
        Self { worker_type, ..self }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.secret.id()
    }

    /// The first message of a session.
    pub(crate) fn hello(&mut self) -> Message {
        (self.requested, self.leave_told, self.threads_told) = (0, false, self.lease_table.threads());
        // The dispatcher may be another one, which has no reports yet.
        self.caching_told.clear();
        Message::Hello(Hello {
            version: UNNUMBERED_VERSION.to_owned(),
            secret: self.secret.to_vec(),
            address: self.address.clone(),
            threads: self.threads_told as u32,
            held: self.lease_table.leases(),
            place: self.cache_address.clone(),
            only: self.only_consumer,
            kind: self.worker_type.name.clone(),
            price: self.worker_type.price,
            spot: self.worker_type.spot,
            local_key: self.local_key.to_vec(),
            build: Some(Build::own(&BitVersions::own())),
        })
    }

    /// Accepts the first event of a session. Returns how often to call [`WorkerProtocol::heartbeat`].
    ///
    /// # Errors
    /// Internal when it is not a welcome.
    pub(crate) fn welcome(&mut self, now: Ticks, first: Option<Event>) -> Result<Duration> {
        let Some(Event::Welcome(welcome)) = first else {
            return Err(Error::internal("the dispatcher's first event is not a welcome"));
        };
        let every = Duration::from_millis(welcome.heartbeat_ms.max(10));
        self.silence_max = Duration::from_millis(welcome.lease_ms).max(every * 3);
        (self.last_heard, self.pause) = (now, PAUSE_FIRST);
        self.lease_table.stats.is_connected.store(true, Relaxed);
        Ok(every)
    }

    /// Accepts a later event.
    pub(crate) fn on_event(&mut self, now: Ticks, event: Event) {
        self.last_heard = now;
        match event {
            Event::Job(definition) => self.lease_table.define(definition),
            Event::Lost(lost) => self.lease_table.expect_skips(&lost),
            Event::Lease(lease) => {
                self.requested = self.requested.saturating_sub(1);
                self.lease_table.lease(&lease);
            }
            Event::Consumed(consumed) => self.lease_table.consumed(&consumed),
            Event::Revoke(revoke) => self.lease_table.revoke(revoke.token),
            Event::Forget(forget) => self.lease_table.forget(forget.job),
            Event::Heartbeat(reply) => reply.peers.into_iter().for_each(|peers| self.membership.update(peers)),
            Event::Welcome(_) => {}
        }
    }

    /// Requests no more splits from now on.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Returns the next message to send; `None` when there is none.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        if self.leaving {
            return (!std::mem::replace(&mut self.leave_told, true)).then_some(Message::Leaving(Leaving {}));
        }
        let threads = self.lease_table.threads();
        if std::mem::replace(&mut self.threads_told, threads) != threads {
            return Some(Message::Threads(ThreadCount { threads: threads as u32 }));
        }
        let splits = self.lease_table.room().checked_sub(self.requested).filter(|&n| n > 0)?;
        self.requested += splits;
        Some(Message::Want(Want { splits: splits as u32 }))
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub(crate) fn heartbeat(&mut self, now: Ticks) -> Result<Message> {
        let silent = now - self.last_heard;
        if silent > self.silence_max {
            return Err(Error::unavailable(format!("the dispatcher was silent for {:.1} s", silent.as_secs_f64())));
        }
        let (caching, held_up) = (self.changed_caching(now), self.lease_table.find_held_up(now));
        let stats = &self.lease_table.stats;
        Ok(Message::Heartbeat(WorkerHeartbeat {
            splits_done: stats.splits_done.load(Relaxed),
            rows_done: stats.rows_done.load(Relaxed),
            rows_shared: stats.rows_shared.load(Relaxed),
            finished: self.lease_table.finished(),
            spent: stats.spent.take_unreported(),
            sent: stats.send_costs.take_unreported(),
            ops: stats.ops.take_unreported(),
            caching,
            disk_off: self.lease_table.disk_off(),
            held_up,
        }))
    }

    /// Returns the cache reports that have changed since they were sent; checks every [`CACHING_EVERY`].
    fn changed_caching(&mut self, now: Ticks) -> Vec<Caching> {
        if now < self.caching_due {
            return Vec::new();
        }
        self.caching_due = now + CACHING_EVERY;
        let kept = self.lease_table.caching();
        let is_new = |(job, json): &&(u64, String)| self.caching_told.get(job) != Some(json);
        let caching = kept.iter().filter(is_new).map(|(job, json)| Caching { job: *job, json: json.clone() }).collect();
        self.caching_told = kept.into_iter().collect();
        caching
    }

    /// Ends a session, or an attempt at one. Returns the pause before the next attempt.
    ///
    /// # Errors
    /// Version, Invalid or PermissionDenied: errors that a retry does not fix.
    pub(crate) fn on_session_end(&mut self, error: Error) -> Result<Duration> {
        self.lease_table.stats.is_connected.store(false, Relaxed);
        if matches!(error.kind(), ErrorKind::Version | ErrorKind::Invalid | ErrorKind::PermissionDenied) {
            return Err(error);
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_LAST);
        Ok(pause)
    }
}

#[cfg(test)]
mod tests;
