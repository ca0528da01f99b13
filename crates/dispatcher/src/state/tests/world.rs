//! A model of workers, consumers, disk and crashes around the state.
//!
//! It uses the actor's outbox, so a crash loses the same data as a real crash.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Ticks, WorkerId};
use forebay_plan::BitVersions;
use forebay_proto::{
    ConsumerHeartbeat, JobKey, JobOps, LostSample, OpSpent, Spent, WorkerHeartbeat, consumer_event, worker_event,
};

use super::model::*;
use crate::actor::outbox::Outbox;
use crate::options::Timing;
use crate::records::{ConsumerKey, JobRecord, Ledger, Position};
use crate::state::leases::grants::hints::GrantHint;
use crate::state::{Arrival, Attachment, Effect, Input, SessionId, State, WorkerType};
use crate::tenant::{Quota, Tenant};

pub(super) struct World {
    pub(super) state: State,
    pub(super) now: Ticks,
    /// Whether jobs and workers have tenants.
    pub(super) tenants: bool,
    /// A local worker, and its consumer.
    pub(super) local: Option<(usize, ConsumerKey)>,
    pub(super) outbox: Outbox<Effect>,
    pub(super) writing: VecDeque<crate::records::Batch>,
    pub(super) disk: Ledger,
    pub(super) workers: Vec<WorkerModel>,
    pub(super) consumers: Vec<ConsumerModel>,
    pub(super) sessions: u64,
    pub(super) token_seen: u64,
    /// The function that replaces the state's hints for grants.
    pub(super) hints: fn(Box<dyn GrantHint>) -> Box<dyn GrantHint>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(false)
    }

    pub(super) fn with(tenants: bool) -> Self {
        let now = Ticks(1000);
        let state = State::recover(Timing::default(), now, &Ledger::default(), splits, &mut Vec::new()).expect("empty");
        let mut world = Self {
            state,
            now,
            tenants,
            local: None,
            outbox: Outbox::default(),
            writing: VecDeque::new(),
            disk: Ledger::default(),
            workers: (0..WORKERS).map(|_| WorkerModel::default()).collect(),
            consumers: Vec::new(),
            sessions: 0,
            token_seen: 0,
            hints: |hint| hint,
        };
        (0..JOBS.len()).for_each(|job| world.create(record(job)));
        world
    }

    /// Begins a job with the same samples as another.
    pub(super) fn add_twin(&mut self) {
        self.create(JobRecord { name: "twin".to_owned(), ..record(TWIN_OF) });
    }

    pub(super) fn create(&mut self, record: JobRecord) {
        let mut out = Vec::new();
        let tenant = self.tenant(record.seed as usize).name.to_string();
        let consumers = JOBS[record.seed as usize].0;
        let record = JobRecord { tenant, ..record };
        let id = self.state.create(self.now, record, consumers, Quota::default(), &mut out).expect("a new name").id;
        self.take(out);
        let consumer = |i| ConsumerModel {
            key: (id, i as u32),
            session: None,
            position: Position::default(),
            assigned: BTreeMap::new(),
            consumed: Vec::new(),
            skipped: Vec::new(),
            recorded: BTreeSet::new(),
            refused: None,
            floors: Vec::new(),
            missing: Vec::new(),
        };
        self.consumers.extend((0..consumers.len()).map(consumer));
        self.flush();
    }

    /// The tenant of a job.
    pub(super) fn tenant(&self, job: usize) -> Tenant {
        if !self.tenants {
            return Tenant::default();
        }
        let quota = Quota { workers: Some(WORKERS_MAX), ..Quota::default() };
        Tenant { name: TENANTS.get(job).unwrap_or(&TENANTS[0]).to_string().into(), quota }
    }

    pub(super) fn session(&mut self) -> SessionId {
        self.sessions += 1;
        SessionId(self.sessions)
    }

    pub(super) fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.state.handle(self.now, input, &mut out);
        self.state.check().expect("after an input");
        self.state.schedule(self.now, &mut out);
        self.state.check().expect("after granting");
        self.state.check_progress().expect("after granting");
        self.take(out);
    }

    pub(super) fn take(&mut self, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Persist(update) => self.outbox.update(self.now, update.into_update(), true),
                Effect::Remember(update) => self.outbox.update(self.now, update, false),
                effect => {
                    if let Some(effect) = self.outbox.say(effect) {
                        self.deliver(effect);
                    }
                }
            }
        }
        self.writing.extend(self.outbox.next(self.now));
    }

    /// The disk finishes the current batch.
    pub(super) fn write(&mut self) {
        let Some(batch) = self.writing.pop_front() else { return };
        self.disk.apply(&batch);
        self.outbox.written().into_iter().for_each(|e| self.deliver(e));
        self.writing.extend(self.outbox.next(self.now));
    }

    pub(super) fn flush(&mut self) {
        while self.outbox.is_writing() {
            self.write();
        }
        if let Some(batch) = self.outbox.rest() {
            self.writing.push_back(batch);
            self.flush();
        }
    }

    pub(super) fn deliver(&mut self, effect: Effect) {
        match effect {
            Effect::Worker(session, event) => self.deliver_worker(session, event),
            Effect::Consumer(session, consumer_event::Event::Assigned(a)) => {
                if let Some(consumer) = self.consumers.iter_mut().find(|r| r.session == Some(session)) {
                    consumer.assigned.insert(Position::new(a.epoch, a.ordinal), a.token);
                }
            }
            Effect::Consumer(session, consumer_event::Event::Floor(floor)) => {
                self.consumers.iter_mut().filter(|r| r.session == Some(session)).for_each(|r| r.floors.push(floor));
            }
            Effect::Consumer(session, consumer_event::Event::Heartbeat(reply)) => {
                let consumers = self.consumers.iter_mut().filter(|r| r.session == Some(session));
                consumers.for_each(|r| r.missing = reply.missing.iter().map(|m| (m.consumer, m.epoch)).collect());
            }
            Effect::Consumer(session, consumer_event::Event::Recorded(recorded)) => {
                if let Some(consumer) = self.consumers.iter_mut().find(|r| r.session == Some(session)) {
                    consumer.recorded.extend(&consumer.skipped[..recorded.number as usize]);
                    let on_disk =
                        |(p, sample): &(Position, u64)| self.disk.skipped.contains_key(&(consumer.key, *p, *sample, 0));
                    assert!(consumer.recorded.iter().all(on_disk), "SP-7: a sample was recorded before it was durable");
                }
            }
            Effect::End(session, error) => {
                for consumer in self.consumers.iter_mut().filter(|r| r.session == Some(session)) {
                    (consumer.session, consumer.refused) = (None, Some(error.clone()));
                }
                self.workers.iter_mut().filter(|w| w.session == Some(session)).for_each(|w| w.session = None);
            }
            _ => {}
        }
    }

    pub(super) fn deliver_worker(&mut self, session: SessionId, event: worker_event::Event) {
        let Some(worker) = self.workers.iter_mut().find(|w| w.session == Some(session)) else { return };
        match event {
            worker_event::Event::Lease(lease) => {
                assert!(lease.token > self.token_seen, "SP-2: {} after {}", lease.token, self.token_seen);
                assert!(lease.token < self.disk.next_token, "a lease was heard of before it was durable");
                self.token_seen = lease.token;
                let at = Position::new(lease.epoch, lease.ordinal);
                let consumer = self.consumers.iter().find(|r| r.key == (lease.job, lease.consumer));
                let known =
                    consumer.map(|r| r.recorded.range((at, 0)..=(at, u64::MAX)).map(|(_, s)| *s)).into_iter().flatten();
                let told = std::mem::take(&mut worker.skipped);
                assert!(
                    known.into_iter().all(|s| told.contains(&(at, s))),
                    "SP-7: a worker was not told what was lost"
                );
                worker.held.insert(lease.token, lease);
            }
            worker_event::Event::Lost(lost) => {
                worker.skipped = lost.samples.iter().map(|l| (Position::new(l.epoch, l.ordinal), l.sample)).collect();
            }
            worker_event::Event::Revoke(revoke) => drop(worker.held.remove(&revoke.token)),
            worker_event::Event::Consumed(c) => worker.held.retain(|_, l| {
                (l.job, l.consumer) != (c.job, c.consumer) || (l.epoch, l.ordinal) >= (c.epoch, c.ordinal)
            }),
            _ => {}
        }
    }

    pub(super) fn hello(&mut self, i: usize) {
        self.hello_with(i, BitVersions::own());
    }

    /// A worker comes that computes these bits.
    pub(super) fn hello_with(&mut self, i: usize, bits: BitVersions) {
        let session = self.session();
        self.workers[i].session = Some(session);
        let held = self.workers[i].held.values().cloned().collect();
        let address = Arc::from(format!("worker-{i}:1"));
        let serves = SERVES[i].filter(|_| self.tenants).map(Arc::from);
        let only = self.local.filter(|(worker, _)| *worker == i).map(|(_, key)| key);
        self.input(Input::Hello(Arrival {
            session,
            worker: WorkerId(i as u128 + 1),
            address,
            threads: 1,
            held,
            serves,
            place: Arc::from(""),
            only,
            local_key: JobKey::from_bytes(&LOCAL_KEY),
            worker_type: WorkerType::default(),
            bits,
        }));
    }

    pub(super) fn attach(&mut self, i: usize, back: u64, window: u32) {
        let session = self.session();
        let consumer = &mut self.consumers[i];
        let resume = !consumer.consumed.is_empty();
        for _ in 0..back {
            consumer.position = consumer.consumed.pop().unwrap_or_default();
        }
        consumer.assigned.clear();
        (consumer.session, consumer.refused) = (Some(session), None);
        let (consumer, position) = (consumer.key, consumer.position);
        let tenant = self.tenant(consumer.0 as usize - 1);
        self.input(Input::Attach(Attachment { tenant, position, resume, window, ..attachment(session, consumer) }));
    }

    /// A consumer consumes the split at its position, if it was sent the lease.
    pub(super) fn consume(&mut self, i: usize) {
        let consumer = &mut self.consumers[i];
        let (job, c) =
            (&JOBS[self.state.leases.record(consumer.key.0).expect("a job").seed as usize], consumer.key.1 as usize);
        let splits = job.0[c];
        if splits == Some(0) {
            consumer.position = Position::new(job.1, 0);
        } else if consumer.assigned.remove(&consumer.position).is_some() {
            consumer.consumed.push(consumer.position);
            let next = Position::new(consumer.position.epoch, consumer.position.ordinal + 1);
            consumer.position = if Some(next.ordinal) == splits { Position::new(next.epoch + 1, 0) } else { next };
        }
        if let (Some(session), position) = (consumer.session, consumer.position) {
            self.input(Input::Ack { session, position });
        }
    }

    /// A consumer leaves out a sample of its current split.
    pub(super) fn skip_sample(&mut self, r: usize, session: SessionId, sample: u64) {
        let Position { epoch, ordinal } = self.consumers[r].position;
        let error = Error::data("a bad record").to_json();
        self.consumers[r].skipped.push((Position { epoch, ordinal }, sample));
        // It reports all of them again, as a client does in a new session.
        let said = |(p, sample): &(Position, u64)| LostSample {
            epoch: p.epoch,
            ordinal: p.ordinal,
            sample: *sample,
            repetition: 0,
            error: error.clone(),
        };
        let samples: Vec<_> = self.consumers[r].skipped.iter().map(said).collect();
        self.input(Input::Skipped { session, number: samples.len() as u64, samples });
    }

    /// The process dies: everything that was not durable or not sent is lost, and all connections break.
    pub(super) fn crash(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        (self.outbox, self.writing) = (Outbox::default(), VecDeque::new());
        self.workers.iter_mut().for_each(|w| w.session = None);
        self.consumers.iter_mut().for_each(|r| r.session = None);
        let mut out = Vec::new();
        self.state = State::recover(Timing::default(), self.now, &self.disk, splits, &mut out).expect("readable");
        self.state.leases.replace_hints(self.hints);
        self.state.check().expect("after recovering");
        self.take(out);
    }

    /// Time passes, in ticks; all live peers send heartbeats, except the `silent` worker.
    pub(super) fn pass(&mut self, by: Duration, silent: Option<usize>) {
        for _ in 0..by.as_millis() / 50 {
            self.now = self.now + Duration::from_millis(50);
            for i in (0..WORKERS).filter(|i| Some(*i) != silent) {
                if let Some(session) = self.workers[i].session {
                    // One worker reports the even splits as finished.
                    let finished = self.workers[i].held.keys().copied().filter(|token| i == 2 && token % 2 == 0);
                    let finished = finished.collect();
                    // Another one reports an op of a job.
                    let rows = OpSpent { rows_in: 1, ..OpSpent::default() };
                    let ops = if i == 0 { vec![JobOps { job: 1, ops: vec![rows] }] } else { Vec::new() };
                    let said = WorkerHeartbeat { finished, ops, ..WorkerHeartbeat::default() };
                    self.input(Input::WorkerHeartbeat { session, said });
                }
            }
            for session in self.consumers.iter().filter_map(|r| r.session).collect::<Vec<_>>() {
                self.input(Input::ConsumerHeartbeat { session, said: ConsumerHeartbeat::default() });
            }
            self.input(Input::Tick);
        }
    }

    /// Half a second passes, in ticks, without any message.
    pub(super) fn half_second(&mut self) {
        for _ in 0..10 {
            self.now = self.now + Duration::from_millis(50);
            self.input(Input::Tick);
        }
    }

    pub(super) fn spends(&mut self, worker: usize, spent: Vec<Spent>) {
        let session = self.workers[worker].session.expect("connected");
        self.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { spent, ..WorkerHeartbeat::default() } });
    }

    pub(super) fn reads(&mut self, consumer: usize, step_ms: u64, batches: u64) {
        let session = self.consumers[consumer].session.expect("connected");
        self.input(Input::ConsumerHeartbeat { session, said: half_second_read(step_ms, batches) });
    }

    /// SP-6: the ledger on disk is this state.
    pub(super) fn check_replay(&mut self) {
        self.flush();
        self.state.check_written(&self.disk).expect("as it is");
        let again = State::recover(Timing::default(), self.now, &self.disk, splits, &mut Vec::new()).expect("readable");
        again.check_written(&self.disk).expect("as it is recovered");
        // SP-1, as seen by the workers: a connected worker holds exactly its leases.
        for (i, worker) in self.workers.iter().enumerate().filter(|(_, w)| w.session.is_some()) {
            let leased = self.state.leases.tokens(WorkerId(i as u128 + 1));
            assert!(worker.held.keys().eq(&leased), "SP-1: worker {i} holds {:?}", worker.held.keys());
        }
    }
}
