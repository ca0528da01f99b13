//! What the simulation drives of a worker: the real shelf, session and cursors, over an engine in virtual time.
//!
//! Not part of the public interface: only `crates/sim` uses it. Nothing is decided here.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Error, Result, Ticks};
use forebay_data::Chunk;
use forebay_proto::worker_message::Message;
use forebay_proto::{JobDefinition, JobKey, Lease, OneReader, Ticket, WorkerSecret, worker_event};

use crate::cursor::{Cursor, Step, not_held};
use crate::engine::Engine;
use crate::held::{Held, Made};
use crate::jobs::Job;
use crate::lock::lock;
use crate::options::{Bounds, HELD_BYTES_MAX};
use crate::shelf::Shelf;
use crate::talk::Talk;

/// What local workers show, and their readers say, in the simulation.
const LOCAL_KEY: [u8; 16] = [1; 16];

/// How long a ticket waits for its lease to arrive.
pub const LEASE_WAIT_MAX: Duration = crate::shelf::LEASE_WAIT_MAX;
/// How long a worker that leaves waits for its consumers to fetch what it holds.
pub const LEAVE_MAX: Duration = crate::options::LEAVE_MAX;

/// Work that the shelf has given out.
#[derive(Clone)]
enum Work {
    Prepare(Arc<Job<JobDefinition>>),
    Compute(Task, bool),
}

/// Keeps the work until it is asked for, and the jobs that are said to hang.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<Vec<Work>>>, Arc<Mutex<BTreeSet<u64>>>);

impl Engine for Queue {
    type Prepared = JobDefinition;

    fn caching(_: &JobDefinition) -> Option<String> {
        None
    }

    fn held_up(&self) -> BTreeSet<u64> {
        lock(&self.1).clone()
    }

    fn prepare(&self, _: &Arc<Shelf<Self>>, job: Arc<Job<JobDefinition>>) {
        lock(&self.0).push(Work::Prepare(job));
    }

    fn compute(&self, split: Arc<Held>, job: Arc<JobDefinition>, run: u64, first: bool) {
        lock(&self.0).push(Work::Compute(Task { split, job, run }, first));
    }
}

/// A job to prepare.
#[derive(Clone)]
pub struct Preparing(Arc<Job<JobDefinition>>);

impl Preparing {
    /// Returns its definition.
    pub fn definition(&self) -> &JobDefinition {
        &self.0.definition
    }
}

/// A split to compute.
#[derive(Clone)]
pub struct Task {
    split: Arc<Held>,
    job: Arc<JobDefinition>,
    run: u64,
}

impl Task {
    /// Returns its job.
    pub fn job(&self) -> &JobDefinition {
        &self.job
    }

    /// Returns (consumer, epoch, ordinal).
    pub fn place(&self) -> (u32, u64, u64) {
        (self.split.key.consumer, self.split.key.epoch, self.split.key.ordinal)
    }

    /// Says whether nobody waits for it any more.
    pub fn is_stale(&self) -> bool {
        self.split.is_stale(self.run)
    }

    /// Says whether a chunk would be dropped at once.
    pub fn wants(&self, index: u64) -> bool {
        self.split.wants(index)
    }

    /// The number of chunks will only be known at the end.
    pub fn set_streamed(&self) {
        self.split.set_streamed();
    }

    /// Says how many chunks there are.
    pub fn set_total(&self, total: u64) {
        self.split.set_total(self.run, total);
    }

    /// Returns how many row ops are to run on what is computed from now on, as the lease says.
    pub fn ops(&self) -> Option<u32> {
        self.split.ops()
    }

    /// Puts a chunk in its place, on which so many row ops have run.
    pub fn put(&self, index: u64, chunk: &Chunk, ops: u32) {
        self.split.count_rows(chunk.num_rows());
        self.split.put(self.run, index, &Made { chunk: chunk.clone(), ops, shared: false }, false);
    }

    /// A thread has computed on it for so long.
    pub fn spend(&self, compute: Duration) {
        self.split.count_time(compute);
    }

    /// Puts an error in the place of a chunk.
    pub fn fail(&self, index: u64, error: Error) {
        let error = self.split.failed_before(index).unwrap_or(error);
        self.split.fail(self.run, index, error);
    }
}

/// What there is to do.
pub enum Todo {
    /// Prepare a job, then say so ([`Worker::prepared`]).
    Prepare(Preparing),
    /// Compute a split; before all others when a reader already waits.
    Compute(Task, bool),
}

/// What a ticket leads to.
pub enum Door {
    /// The split's chunks.
    Open(Reader),
    /// The lease, or the job, may be on its way: ask again when something has changed.
    Wait,
    /// Why there is nothing.
    Refused(Error),
}

/// A chunk as it is sent: its index, its rows, and how many row ops have run on them.
pub type Sent = (u64, Chunk, u32);

/// One reader of a split.
pub struct Reader(Cursor<Queue>);

impl Reader {
    /// Returns the next (index, chunk, row ops that have run on it); `None` in `Some` when there is none yet, `None` when the
    /// split is complete. With `take`, the chunk is given away.
    ///
    /// # Errors
    /// What the split failed with, or that the lease is gone.
    pub fn next(&mut self, take: bool) -> Result<Option<Option<Sent>>> {
        let seen = self.0.look(take);
        Ok(match self.0.after(seen)? {
            Step::Chunk(index, made) => Some(Some((index, made.chunk, made.ops))),
            Step::Wait => Some(None),
            Step::End => None,
        })
    }
}

/// A worker's state machines.
pub struct Worker {
    queue: Queue,
    talk: Talk<Queue>,
}

impl Worker {
    /// A worker that has just started; a local one computes for one reader alone.
    pub fn new(secret: u128, address: String, threads: usize, slots: usize, only: Option<OneReader>) -> Self {
        let queue = Queue::default();
        let shelf = Arc::new(Shelf::new(queue.clone(), Bounds { threads, slots, bytes: HELD_BYTES_MAX }));
        let talk = Talk::new(WorkerSecret::new(secret), address, only, shelf);
        Self { queue, talk: talk.started_with(JobKey::from_bytes(&LOCAL_KEY)) }
    }

    /// Takes what there is to do since the last call.
    pub fn todo(&self) -> Vec<Todo> {
        let work = std::mem::take(&mut *lock(&self.queue.0)).into_iter();
        let todo = work.map(|work| match work {
            Work::Prepare(job) => Todo::Prepare(Preparing(job)),
            Work::Compute(task, first) => Todo::Compute(task, first),
        });
        todo.collect()
    }

    /// A job is ready, or cannot be.
    pub fn prepared(&self, job: &Preparing, ready: Result<()>) {
        self.talk.shelf.prepared(&job.0, ready.map(|()| Arc::new(job.definition().clone())));
    }

    /// Threads hang in what these jobs read, and in nothing else.
    pub fn hang(&self, jobs: BTreeSet<u64>) {
        *lock(&self.queue.1) = jobs;
    }

    /// The first message of a session.
    pub fn hello(&mut self) -> Message {
        self.talk.hello()
    }

    /// The first event of a session; returns how often it says that it lives.
    ///
    /// # Errors
    /// Internal when it is no welcome.
    pub fn welcome(&mut self, now: Ticks, event: worker_event::Event) -> Result<Duration> {
        self.talk.welcome(now, Some(event))
    }

    /// Takes a later event.
    pub fn heard(&mut self, now: Ticks, event: worker_event::Event) {
        self.talk.heard(now, event);
    }

    /// Returns what there is to say now, until there is nothing.
    pub fn say(&mut self) -> Option<Message> {
        self.talk.next()
    }

    /// Returns the heartbeat.
    ///
    /// # Errors
    /// Unavailable when the dispatcher was silent for too long.
    pub fn beat(&mut self, now: Ticks) -> Result<Message> {
        self.talk.beat(now)
    }

    /// The session ended; returns the pause before the next one.
    ///
    /// # Errors
    /// What trying again will not mend.
    pub fn broken(&mut self, error: Error) -> Result<Duration> {
        self.talk.broken(error)
    }

    /// From now on it takes nothing new.
    pub fn leave(&mut self) {
        self.talk.leave();
    }

    /// A ticket is shown.
    pub fn knock(&self, ticket: &Ticket) -> Door {
        let shelf = &self.talk.shelf;
        let Some(found) = shelf.look(ticket) else { return Door::Wait };
        let Some((split, job)) = found else { return Door::Refused(not_held()) };
        match job.look() {
            None => Door::Wait,
            Some(Err(error)) => Door::Refused(error),
            Some(Ok(job)) => Door::Open(Reader(Cursor::new(shelf.clone(), split, job, ticket))),
        }
    }

    /// The answer to a ticket whose lease did not come in time.
    pub fn refuse() -> Error {
        not_held()
    }

    /// Returns the leases that it holds.
    pub fn leases(&self) -> Vec<Lease> {
        self.talk.shelf.leases()
    }

    /// Returns the bytes of the chunks that it holds, and the splits that take a place.
    pub fn held(&self) -> (usize, usize) {
        use std::sync::atomic::Ordering::Relaxed;
        let meter = &self.talk.shelf.meter;
        (meter.bytes.load(Relaxed), meter.open.load(Relaxed))
    }

    /// Checks the shelf's invariants.
    ///
    /// # Errors
    /// Internal, naming what does not hold.
    pub fn check(&self) -> Result<()> {
        self.talk.shelf.check()
    }
}
