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
    Caching, Hello, JobKey, Leaving, OneReader, Threads as Computing, Want, WorkerHeartbeat, WorkerSecret,
};

use crate::engine::{Engine, Threads};
use crate::membership::Membership;
use crate::options::MachineKind;
use crate::shelf::Shelf;

/// The pauses between attempts double from the first to the last of these.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(200);
/// How often it looks what it keeps of its jobs.
const CACHING_EVERY: Duration = Duration::from_secs(2);

/// One worker, as it speaks.
pub(crate) struct Talk<E: Engine = Threads> {
    secret: WorkerSecret,
    address: String,
    /// The one reader that it computes for.
    only: Option<OneReader>,
    /// What it shows for that.
    local_key: JobKey,
    /// Threads that this session was told of.
    threads_said: usize,
    pub(crate) shelf: Arc<Shelf<E>>,
    pause: Duration,
    /// Whether it takes nothing new any more, and whether this session was told.
    leaving: bool,
    left: bool,
    /// Splits that this session was asked for and that have not come.
    asked: usize,
    heard: Ticks,
    silence_max: Duration,
    /// What it has said that it keeps of each job, and when it looks again.
    caching_said: HashMap<u64, String>,
    caching_due: Ticks,
    /// Where it keeps rows, for others to read: see [`Talk::keeping`].
    place: String,
    membership: Arc<Membership>,
    machine: MachineKind,
}

impl<E: Engine> Talk<E> {
    pub(crate) fn new(secret: WorkerSecret, address: String, only: Option<OneReader>, shelf: Arc<Shelf<E>>) -> Self {
        Self {
            secret,
            address,
            only,
            local_key: JobKey::default(),
            threads_said: 0,
            shelf,
            pause: PAUSE_FIRST,
            leaving: false,
            left: false,
            asked: 0,
            heard: Ticks::default(),
            silence_max: Duration::ZERO,
            caching_said: HashMap::new(),
            caching_due: Ticks::default(),
            place: String::new(),
            membership: Arc::default(),
            machine: MachineKind::default(),
        }
    }

    /// Says that rows are kept, at a place, and where it is noted who else does so.
    pub(crate) fn keeping(self, place: String, membership: Arc<Membership>) -> Self {
        Self { place, membership, ..self }
    }

    /// Shows that its reader started it.
    pub(crate) fn started_with(self, local_key: JobKey) -> Self {
        Self { local_key, ..self }
    }

    /// Says what kind of machine it is on.
    pub(crate) fn on(self, machine: MachineKind) -> Self {
        Self { machine, ..self }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.secret.id()
    }

    /// The first message of a session.
    pub(crate) fn hello(&mut self) -> Message {
        (self.asked, self.left, self.threads_said) = (0, false, self.shelf.threads());
        // The next dispatcher knows nothing.
        self.caching_said.clear();
        Message::Hello(Hello {
            version: VERSION.to_owned(),
            secret: self.secret.to_vec(),
            address: self.address.clone(),
            threads: self.threads_said as u32,
            held: self.shelf.leases(),
            place: self.place.clone(),
            only: self.only,
            kind: self.machine.name.clone(),
            price: self.machine.price,
            spot: self.machine.spot,
            local_key: self.local_key.to_vec(),
        })
    }

    /// The first event of a session. Returns how often to call [`Talk::beat`].
    ///
    /// # Errors
    /// Internal when it is no welcome.
    pub(crate) fn welcome(&mut self, now: Ticks, first: Option<Event>) -> Result<Duration> {
        let Some(Event::Welcome(welcome)) = first else {
            return Err(Error::internal("the dispatcher's first event is not a welcome"));
        };
        let every = Duration::from_millis(welcome.heartbeat_ms.max(10));
        self.silence_max = Duration::from_millis(welcome.lease_ms).max(every * 3);
        (self.heard, self.pause) = (now, PAUSE_FIRST);
        self.shelf.meter.is_connected.store(true, Relaxed);
        Ok(every)
    }

    /// Takes a later event.
    pub(crate) fn heard(&mut self, now: Ticks, event: Event) {
        self.heard = now;
        match event {
            Event::Job(definition) => self.shelf.define(definition),
            Event::Lost(lost) => self.shelf.lost(&lost),
            Event::Lease(lease) => {
                self.asked = self.asked.saturating_sub(1);
                self.shelf.lease(&lease);
            }
            Event::Consumed(consumed) => self.shelf.consumed(&consumed),
            Event::Revoke(revoke) => self.shelf.revoke(revoke.token),
            Event::Forget(forget) => self.shelf.forget(forget.job),
            Event::Heartbeat(reply) => reply.peers.into_iter().for_each(|peers| self.membership.tell(peers)),
            Event::Welcome(_) => {}
        }
    }

    /// From now on nothing new is taken.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Returns what there is to say now; call it again until there is nothing.
    pub(crate) fn next(&mut self) -> Option<Message> {
        if self.leaving {
            return (!std::mem::replace(&mut self.left, true)).then_some(Message::Leaving(Leaving {}));
        }
        let threads = self.shelf.threads();
        if std::mem::replace(&mut self.threads_said, threads) != threads {
            return Some(Message::Threads(Computing { threads: threads as u32 }));
        }
        let splits = self.shelf.room().checked_sub(self.asked).filter(|&n| n > 0)?;
        self.asked += splits;
        Some(Message::Want(Want { splits: splits as u32 }))
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub(crate) fn beat(&mut self, now: Ticks) -> Result<Message> {
        let silent = now - self.heard;
        if silent > self.silence_max {
            return Err(Error::unavailable(format!("the dispatcher was silent for {:.1} s", silent.as_secs_f64())));
        }
        let (caching, held_up) = (self.caching(now), self.shelf.find_held_up(now));
        let meter = &self.shelf.meter;
        Ok(Message::Heartbeat(WorkerHeartbeat {
            splits_done: meter.splits_done.load(Relaxed),
            rows_done: meter.rows_done.load(Relaxed),
            rows_shared: meter.rows_shared.load(Relaxed),
            finished: self.shelf.finished(),
            spent: meter.spent.tell(),
            sent: meter.wire.tell(),
            ops: meter.ops.tell(),
            caching,
            disk_off: self.shelf.disk_off(),
            held_up,
        }))
    }

    /// Returns what is kept of jobs, now and then, where that has changed.
    fn caching(&mut self, now: Ticks) -> Vec<Caching> {
        if now < self.caching_due {
            return Vec::new();
        }
        self.caching_due = now + CACHING_EVERY;
        let kept = self.shelf.caching();
        let is_new = |(job, json): &&(u64, String)| self.caching_said.get(job) != Some(json);
        let caching = kept.iter().filter(is_new).map(|(job, json)| Caching { job: *job, json: json.clone() }).collect();
        self.caching_said = kept.into_iter().collect();
        caching
    }

    /// A session ended, or could not begin. Returns the pause before the next one.
    ///
    /// # Errors
    /// Version, Invalid or PermissionDenied: what trying again will not mend.
    pub(crate) fn broken(&mut self, error: Error) -> Result<Duration> {
        self.shelf.meter.is_connected.store(false, Relaxed);
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
