//! Random histories of the state against its invariants, with a model of workers, readers, disk and crashes.
//!
//! The model uses the outbox that the actor uses, so what is lost in a crash is what would be.

mod cuts;
mod figures;
mod fleet;
mod grant;
mod homes;
mod learned;
mod local;
mod ops;
mod peers;
mod poison;
mod race;
mod retention;
mod scale;
mod tenants;
mod twins;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks, WorkerId};
use forebay_proto::{
    ConsumerHeartbeat, JobKey, JobOps, Lease, LostSample, OpSpent, OpStatus, Spent, UNREACHED, WorkerHeartbeat,
    consumer_event, worker_event,
};
use proptest::prelude::*;

use super::{Effect, Input, Kind, SessionId, State};
use crate::options::Timing;
use crate::outbox::Outbox;
use crate::records::{ConsumerKey, JobRecord, Ledger, Position};
use crate::tenant::{Quota, Tenant};

const WORKERS: usize = 3;
/// Splits of an epoch of each consumer, and epochs: shared, endless, empty, and one without end of epochs.
const JOBS: [(&[Option<u64>], u64); 4] = [(&[Some(3), Some(2)], 3), (&[None], 1), (&[Some(0)], 2), (&[Some(1)], 0)];
/// The reader of a job without end.
const ENDLESS: usize = 2;

fn splits(record: &JobRecord) -> Result<Vec<Option<u64>>> {
    Ok(JOBS[record.seed as usize].0.to_vec())
}

/// Where there are tenants: whose each job is, whom each worker serves, and how many workers may compute for each tenant.
const TENANTS: [&str; 5] = ["a", "a", "b", "b", "a"];
/// A job with the samples of this one may be added.
const TWIN_OF: usize = 1;
/// Its reader.
const TWIN: usize = 5;
/// The worker that may be a local one: of the first reader, whose tenant it serves.
const LOCAL: usize = 1;
const SERVES: [Option<&str>; WORKERS] = [None, Some("a"), Some("b")];
const WORKERS_MAX: u32 = 1;

fn record(job: usize) -> JobRecord {
    JobRecord {
        id: 0,
        name: format!("job {job}"),
        dataset: String::new(),
        graph: String::new(),
        seed: job as u64,
        epochs: JOBS[job].1,
        consumers: JOBS[job].0.len() as u32,
        extent: String::new(),
        sizing: String::new(),
        index: String::new(),
        even: false,
        coordinated: false,
        weight: 1,
        priority: 0,
        cancelled: false,
        read_before: 0,
        tenant: String::new(),
        key: JobKey::default(),
    }
}

#[derive(Default)]
struct WorkerModel {
    session: Option<SessionId>,
    held: BTreeMap<u64, Lease>,
    /// What it was told last of samples that are lost.
    lost: BTreeSet<(Position, u64)>,
}

struct ReaderModel {
    key: ConsumerKey,
    session: Option<SessionId>,
    position: Position,
    assigned: BTreeMap<Position, u64>,
    consumed: Vec<Position>,
    /// What it has left out; and what of that it was told is recorded.
    lost: Vec<(Position, u64)>,
    recorded: BTreeSet<(Position, u64)>,
    refused: Option<Error>,
}

/// What is said of half a second by a reader whose steps took so long in all, and that waited for the rest; a batch has one row.
fn half_second_read(step_ms: u64, batches: u64) -> ConsumerHeartbeat {
    ConsumerHeartbeat { batch_wait_ms: 500 - step_ms, step_ms, batches, rows: batches, ..ConsumerHeartbeat::default() }
}

struct World {
    state: State,
    now: Ticks,
    /// Whether jobs and workers are of tenants.
    tenants: bool,
    /// A local worker, and its reader.
    local: Option<(usize, ConsumerKey)>,
    outbox: Outbox<Effect>,
    writing: VecDeque<crate::records::Batch>,
    disk: Ledger,
    workers: Vec<WorkerModel>,
    readers: Vec<ReaderModel>,
    sessions: u64,
    token_seen: u64,
}

impl World {
    fn new() -> Self {
        Self::with(false)
    }

    fn with(tenants: bool) -> Self {
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
            readers: Vec::new(),
            sessions: 0,
            token_seen: 0,
        };
        (0..JOBS.len()).for_each(|job| world.create(record(job)));
        world
    }

    /// Begins a job with the same samples as another.
    fn add_twin(&mut self) {
        self.create(JobRecord { name: "twin".to_owned(), ..record(TWIN_OF) });
    }

    fn create(&mut self, record: JobRecord) {
        let mut out = Vec::new();
        let tenant = self.tenant(record.seed as usize).name.to_string();
        let consumers = JOBS[record.seed as usize].0;
        let record = JobRecord { tenant, ..record };
        let id = self.state.create(self.now, record, consumers, None, &mut out).expect("a new name").id;
        self.take(out);
        let reader = |i| ReaderModel {
            key: (id, i as u32),
            session: None,
            position: Position::default(),
            assigned: BTreeMap::new(),
            consumed: Vec::new(),
            lost: Vec::new(),
            recorded: BTreeSet::new(),
            refused: None,
        };
        self.readers.extend((0..consumers.len()).map(reader));
        self.flush();
    }

    /// Whose a job is.
    fn tenant(&self, job: usize) -> Tenant {
        if !self.tenants {
            return Tenant::default();
        }
        let quota = Quota { workers: Some(WORKERS_MAX), ..Quota::default() };
        Tenant { name: TENANTS[job].into(), quota }
    }

    fn session(&mut self) -> SessionId {
        self.sessions += 1;
        SessionId(self.sessions)
    }

    fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.state.handle(self.now, input, &mut out);
        self.state.check().expect("after an input");
        self.state.schedule(self.now, &mut out);
        self.state.check().expect("after granting");
        self.state.check_progress().expect("after granting");
        self.take(out);
    }

    fn take(&mut self, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Persist(update) => self.outbox.update(self.now, update, true),
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

    /// The disk finishes the batch that it is at.
    fn write(&mut self) {
        let Some(batch) = self.writing.pop_front() else { return };
        self.disk.apply(&batch);
        self.outbox.written().into_iter().for_each(|e| self.deliver(e));
        self.writing.extend(self.outbox.next(self.now));
    }

    fn flush(&mut self) {
        while self.outbox.is_writing() {
            self.write();
        }
        if let Some(batch) = self.outbox.rest() {
            self.writing.push_back(batch);
            self.flush();
        }
    }

    fn deliver(&mut self, effect: Effect) {
        match effect {
            Effect::Worker(session, event) => self.deliver_worker(session, event),
            Effect::Consumer(session, consumer_event::Event::Assigned(a)) => {
                if let Some(reader) = self.readers.iter_mut().find(|r| r.session == Some(session)) {
                    reader.assigned.insert(Position::new(a.epoch, a.ordinal), a.token);
                }
            }
            Effect::Consumer(session, consumer_event::Event::Recorded(recorded)) => {
                if let Some(reader) = self.readers.iter_mut().find(|r| r.session == Some(session)) {
                    reader.recorded.extend(&reader.lost[..recorded.number as usize]);
                    let on_disk =
                        |(p, sample): &(Position, u64)| self.disk.lost.contains_key(&(reader.key, *p, *sample, 0));
                    assert!(reader.recorded.iter().all(on_disk), "SP-7: a sample was recorded before it was durable");
                }
            }
            Effect::End(session, error) => {
                for reader in self.readers.iter_mut().filter(|r| r.session == Some(session)) {
                    (reader.session, reader.refused) = (None, Some(error.clone()));
                }
                self.workers.iter_mut().filter(|w| w.session == Some(session)).for_each(|w| w.session = None);
            }
            _ => {}
        }
    }

    fn deliver_worker(&mut self, session: SessionId, event: worker_event::Event) {
        let Some(worker) = self.workers.iter_mut().find(|w| w.session == Some(session)) else { return };
        match event {
            worker_event::Event::Lease(lease) => {
                assert!(lease.token > self.token_seen, "SP-2: {} after {}", lease.token, self.token_seen);
                assert!(lease.token < self.disk.next_token, "a lease was heard of before it was durable");
                self.token_seen = lease.token;
                let at = Position::new(lease.epoch, lease.ordinal);
                let reader = self.readers.iter().find(|r| r.key == (lease.job, lease.consumer));
                let known =
                    reader.map(|r| r.recorded.range((at, 0)..=(at, u64::MAX)).map(|(_, s)| *s)).into_iter().flatten();
                let told = std::mem::take(&mut worker.lost);
                assert!(
                    known.into_iter().all(|s| told.contains(&(at, s))),
                    "SP-7: a worker was not told what was lost"
                );
                worker.held.insert(lease.token, lease);
            }
            worker_event::Event::Lost(lost) => {
                worker.lost = lost.samples.iter().map(|l| (Position::new(l.epoch, l.ordinal), l.sample)).collect();
            }
            worker_event::Event::Revoke(revoke) => drop(worker.held.remove(&revoke.token)),
            worker_event::Event::Consumed(c) => worker.held.retain(|_, l| {
                (l.job, l.consumer) != (c.job, c.consumer) || (l.epoch, l.ordinal) >= (c.epoch, c.ordinal)
            }),
            _ => {}
        }
    }

    fn hello(&mut self, i: usize) {
        let session = self.session();
        self.workers[i].session = Some(session);
        let held = self.workers[i].held.values().cloned().collect();
        let address = Arc::from(format!("worker-{i}:1"));
        let serves = SERVES[i].filter(|_| self.tenants).map(Arc::from);
        let only = self.local.filter(|(worker, _)| *worker == i).map(|(_, key)| key);
        self.input(Input::Hello {
            session,
            worker: WorkerId(i as u128 + 1),
            address,
            threads: 1,
            held,
            serves,
            place: Arc::from(""),
            only,
            kind: Kind::default(),
        });
    }

    fn attach(&mut self, i: usize, back: u64, window: u32) {
        let session = self.session();
        let reader = &mut self.readers[i];
        let resume = !reader.consumed.is_empty();
        for _ in 0..back {
            reader.position = reader.consumed.pop().unwrap_or_default();
        }
        reader.assigned.clear();
        (reader.session, reader.refused) = (Some(session), None);
        let (consumer, position) = (reader.key, reader.position);
        let (tenant, lost) = (self.tenant(consumer.0 as usize - 1), Vec::new());
        self.input(Input::Attach { session, tenant, consumer, position, resume, window, lost });
    }

    /// A reader consumes the split at its position, if it was told who holds it.
    fn consume(&mut self, i: usize) {
        let reader = &mut self.readers[i];
        let (job, c) = (&JOBS[self.state.jobs[&reader.key.0].record.seed as usize], reader.key.1 as usize);
        let splits = job.0[c];
        if splits == Some(0) {
            reader.position = Position::new(job.1, 0);
        } else if reader.assigned.remove(&reader.position).is_some() {
            reader.consumed.push(reader.position);
            let next = Position::new(reader.position.epoch, reader.position.ordinal + 1);
            reader.position = if Some(next.ordinal) == splits { Position::new(next.epoch + 1, 0) } else { next };
        }
        if let (Some(session), position) = (reader.session, reader.position) {
            self.input(Input::Ack { session, position });
        }
    }

    /// A reader leaves out a sample of the split that it is at.
    fn lose(&mut self, r: usize, session: SessionId, sample: u64) {
        let Position { epoch, ordinal } = self.readers[r].position;
        let error = Error::data("a bad record").to_json();
        self.readers[r].lost.push((Position { epoch, ordinal }, sample));
        // It says all of them again, as a client does whose session broke.
        let said = |(p, sample): &(Position, u64)| LostSample {
            epoch: p.epoch,
            ordinal: p.ordinal,
            sample: *sample,
            repetition: 0,
            error: error.clone(),
        };
        let samples: Vec<_> = self.readers[r].lost.iter().map(said).collect();
        self.input(Input::Lost { session, number: samples.len() as u64, samples });
    }

    /// The process dies: what was not durable, and what was not said, is lost. Everybody's connection breaks.
    fn crash(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        (self.outbox, self.writing) = (Outbox::default(), VecDeque::new());
        self.workers.iter_mut().for_each(|w| w.session = None);
        self.readers.iter_mut().for_each(|r| r.session = None);
        let mut out = Vec::new();
        self.state = State::recover(Timing::default(), self.now, &self.disk, splits, &mut out).expect("readable");
        self.state.check().expect("after recovering");
        self.take(out);
    }

    /// Time passes, in ticks; those who live say so.
    fn pass(&mut self, by: Duration, silent: Option<usize>) {
        for _ in 0..by.as_millis() / 50 {
            self.now = self.now + Duration::from_millis(50);
            for i in (0..WORKERS).filter(|i| Some(*i) != silent) {
                if let Some(session) = self.workers[i].session {
                    // One of them says which splits it has finished: the even ones.
                    let finished = self.workers[i].held.keys().copied().filter(|token| i == 2 && token % 2 == 0);
                    let finished = finished.collect();
                    // Another, what an op of a job does.
                    let rows = OpSpent { rows_in: 1, ..OpSpent::default() };
                    let ops = if i == 0 { vec![JobOps { job: 1, ops: vec![rows] }] } else { Vec::new() };
                    let said = WorkerHeartbeat { finished, ops, ..WorkerHeartbeat::default() };
                    self.input(Input::WorkerHeartbeat { session, said });
                }
            }
            for session in self.readers.iter().filter_map(|r| r.session).collect::<Vec<_>>() {
                self.input(Input::ConsumerHeartbeat { session, said: ConsumerHeartbeat::default() });
            }
            self.input(Input::Tick);
        }
    }

    /// Half a second passes, in ticks, and nobody says anything.
    fn half_second(&mut self) {
        for _ in 0..10 {
            self.now = self.now + Duration::from_millis(50);
            self.input(Input::Tick);
        }
    }

    fn spends(&mut self, worker: usize, spent: Vec<Spent>) {
        let session = self.workers[worker].session.expect("connected");
        self.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { spent, ..WorkerHeartbeat::default() } });
    }

    fn reads(&mut self, reader: usize, step_ms: u64, batches: u64) {
        let session = self.readers[reader].session.expect("connected");
        self.input(Input::ConsumerHeartbeat { session, said: half_second_read(step_ms, batches) });
    }

    fn step(&mut self, (kind, a, b): (u8, u8, u8)) {
        let (w, r) = (a as usize % WORKERS, a as usize % self.readers.len());
        let worker = self.workers[w].session;
        let reader = self.readers[r].session;
        match (kind % 16, worker, reader) {
            (0, None, _) => self.hello(w),
            (1, None, _) => {
                // A new process with the old one's number: it holds nothing.
                self.workers[w].held.clear();
                self.hello(w);
            }
            (0..=3, Some(session), _) => self.input(Input::Want { session, splits: 1 + u32::from(b % 4) }),
            (4, Some(session), _) => {
                self.workers[w].session = None;
                self.input(Input::WorkerGone { session });
            }
            (5, Some(session), _) => self.input(Input::Leaving { session }),
            (6 | 7, _, None) => self.attach(r, u64::from(b % 3), 1 + u32::from(b % 5)),
            (6..=9, _, Some(_)) => self.consume(r),
            (10, _, Some(session)) => {
                self.readers[r].session = None;
                self.input(Input::ConsumerGone { session });
            }
            (11, _, Some(session)) => {
                let nth = self.readers[r].assigned.iter().nth(b as usize % 3);
                if let Some((position, token)) = nth.map(|(p, t)| (*p, *t)) {
                    let error = Error::unavailable("refused");
                    let error = if b % 2 == 0 { error.with(UNREACHED, "worker:1") } else { error };
                    self.input(Input::Unreachable { session, position, token, error });
                }
            }
            (12, _, Some(session)) if b % 3 == 0 => self.lose(r, session, u64::from(b)),
            (12, _, Some(session)) => {
                let epoch = self.readers[r].position.epoch + u64::from(b % 2);
                self.input(Input::EndEpoch { session, epoch });
            }
            (13, _, _) => self.pass(Duration::from_millis(u64::from(b) * 50), Some(w).filter(|_| b % 2 == 0)),
            (14, _, _) if b < 64 => self.crash(),
            (15, Some(session), _) if b < 64 => self.input(Input::Threads { session, threads: u32::from(b % 3) }),
            _ => self.write(),
        }
    }

    /// SP-6: what was written is what there is.
    fn check_replay(&mut self) {
        self.flush();
        self.state.check_written(&self.disk).expect("as it is");
        let again = State::recover(Timing::default(), self.now, &self.disk, splits, &mut Vec::new()).expect("readable");
        again.check_written(&self.disk).expect("as it is recovered");
        // SP-1, as the workers see it: who is connected holds what is leased to it, and nothing else.
        for (i, worker) in self.workers.iter().enumerate().filter(|(_, w)| w.session.is_some()) {
            let leased = self.state.workers[&WorkerId(i as u128 + 1)].leases.keys();
            assert!(worker.held.keys().eq(leased), "SP-1: worker {i} holds {:?}", worker.held.keys());
        }
    }

    /// Everybody is well again: every split is consumed, in order.
    fn heal(&mut self) {
        for i in 0..WORKERS {
            self.hello(i);
        }
        for i in 0..self.readers.len() {
            if let Some(session) = self.readers[i].session.take() {
                self.input(Input::ConsumerGone { session });
            }
            self.attach(i, 0, 3);
        }
        for _ in 0..40 {
            for i in 0..WORKERS {
                let session = self.workers[i].session.expect("SP-5: a worker was turned away");
                // Where only one may compute for all readers of a tenant, it has to have the room.
                self.input(Input::Want { session, splits: if self.tenants { 8 } else { 2 } });
                let finished = self.workers[i].held.keys().copied().collect();
                let said = WorkerHeartbeat { finished, ..WorkerHeartbeat::default() };
                self.input(Input::WorkerHeartbeat { session, said });
            }
            self.flush();
            for i in 0..self.readers.len() {
                self.consume(i);
            }
        }
        self.flush();
        for reader in &self.readers {
            let refused = reader.refused.as_ref().map(Error::kind);
            let job = &self.state.jobs[&reader.key.0];
            let (splits, epochs) = JOBS[job.record.seed as usize];
            match splits[reader.key.1 as usize] {
                Some(n) if epochs > 0 => {
                    let all: Vec<_> = (0..epochs).flat_map(|e| (0..n).map(move |o| Position::new(e, o))).collect();
                    let got = &reader.consumed;
                    let ended = matches!(refused, Some(ErrorKind::Closed | ErrorKind::Data));
                    assert!(*got == all || ended, "SP-5: {got:?}, {refused:?}");
                }
                // A split that ended three workers is not tried again.
                _ if refused == Some(ErrorKind::Data) => {}
                _ => assert!(reader.consumed.len() >= 30, "SP-5: {:?} {:?}", reader.consumed, reader.refused),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_an_invariant(
        tenants: bool,
        twin: bool,
        local: bool,
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 0..120),
    ) {
        let mut world = World::with(tenants);
        if twin {
            world.add_twin();
        }
        world.local = local.then(|| (LOCAL, world.readers[0].key));
        for step in steps {
            world.step(step);
        }
        world.check_replay();
        world.heal();
        world.check_replay();
    }
}
