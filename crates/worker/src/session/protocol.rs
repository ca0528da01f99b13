//! What a worker says in its session with the dispatcher, and what it does about what it hears. No I/O, no clock.
//!
//! `session` drives it over gRPC, the simulation over a network that fails. Invariants: a lease that was granted is kept
//! until the dispatcher says otherwise, whatever happens to the connection; no more is asked for than there is room for;
//! silence for as long as a lease lasts counts as a broken connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, VERSION, WorkerId};
use forebay_proto::worker_event::Event;
use forebay_proto::worker_message::Message;
use forebay_proto::{
    Caching, Hello, JobKey, Leaving, OneReader, Threads as ThreadCount, Want, WorkerHeartbeat, WorkerSecret,
};

use crate::compute::engine::{Engine, PoolEngine};
use crate::options::WorkerType;
use crate::peers::membership::Membership;
use crate::splits::lease_table::LeaseTable;

/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(200);
/// How often it looks what it keeps of its jobs.
const CACHING_EVERY: Duration = Duration::from_secs(2);

/// One worker, as it speaks.
pub(crate) struct WorkerProtocol<E: Engine = PoolEngine> {
    secret: WorkerSecret,
    address: String,
    /// The one reader that it computes for.
    only_consumer: Option<OneReader>,
    /// What it shows for that.
    local_key: JobKey,
    /// Threads that this session was told of.
    threads_told: usize,
    pub(crate) lease_table: Arc<LeaseTable<E>>,
    pause: Duration,
    /// Whether it takes nothing new any more, and whether this session was told.
    leaving: bool,
    leave_told: bool,
    /// Splits that this session was asked for and that have not come.
    requested: usize,
    last_heard: Ticks,
    silence_max: Duration,
    /// What it has said that it keeps of each job, and when it looks again.
    caching_told: HashMap<u64, String>,
    caching_due: Ticks,
    /// Where it keeps rows, for others to read: see [`WorkerProtocol::with_cache`].
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

    /// Says that rows are kept, at a place, and where it is noted who else does so.
    pub(crate) fn with_cache(self, cache_address: String, membership: Arc<Membership>) -> Self {
        Self { cache_address, membership, ..self }
    }

    /// Shows that its reader started it.
    pub(crate) fn with_local_key(self, local_key: JobKey) -> Self {
        Self { local_key, ..self }
    }

    /// Says what kind of machine it is on.
    pub(crate) fn with_type(self, worker_type: WorkerType) -> Self {
        Self { worker_type, ..self }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.secret.id()
    }

    /// The first message of a session.
    pub(crate) fn hello(&mut self) -> Message {
        (self.requested, self.leave_told, self.threads_told) = (0, false, self.lease_table.threads());
        // The next dispatcher knows nothing.
        self.caching_told.clear();
        Message::Hello(Hello {
            version: VERSION.to_owned(),
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
        })
    }

    /// The first event of a session. Returns how often to call [WorkerProtocol::heartbeat].
    ///
    /// # Errors
    /// Internal when it is no welcome.
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

    /// Takes a later event.
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
            Event::Heartbeat(reply) => reply.peers.into_iter().for_each(|peers| self.membership.tell(peers)),
            Event::Welcome(_) => {}
        }
    }

    /// From now on nothing new is taken.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Returns what there is to say now; call it again until there is nothing.
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
            spent: stats.spent.tell(),
            sent: stats.wire.tell(),
            ops: stats.ops.tell(),
            caching,
            disk_off: self.lease_table.disk_off(),
            held_up,
        }))
    }

    /// Returns what is kept of jobs, now and then, where that has changed.
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

    /// A session ended, or could not begin. Returns the pause before the next one.
    ///
    /// # Errors
    /// Version, Invalid or PermissionDenied: what trying again will not mend.
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
